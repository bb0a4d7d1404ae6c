import { unixFetch } from '@slipway/http'

/** `fetch` into sandboxes. A redirect is an error: it could send the keys in the headers anywhere. */
export const sandboxFetch: typeof globalThis.fetch = (input, init) =>
  unixFetch(input, { ...init, redirect: init?.redirect === 'manual' ? 'manual' : 'error' })
