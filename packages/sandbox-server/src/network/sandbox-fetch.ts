import { unixFetch } from '@slipway/http'

/**
 * `fetch` for requests into sandboxes. A redirect is an error: what runs in a sandbox must not send the control plane,
 * and the keys in its headers, to an address of its choice.
 */
export const sandboxFetch: typeof globalThis.fetch = (input, init) =>
  unixFetch(input, { ...init, redirect: init?.redirect === 'manual' ? 'manual' : 'error' })
