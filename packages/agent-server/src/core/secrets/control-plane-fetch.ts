import { unixFetch } from '@slipway/http'
import type { Config } from '../config/config.ts'

const webhooksPath = /\/api\/v1\/webhooks\/*$/
const secretPath = /\/api\/v1\/sandboxes\/[^/]+\/settings\/secrets\/[^/]+$/

/**
 * A fetch for LookupSecrets in a sandbox. Secrets of its owner are fetched where the control plane receives
 * the webhooks of this server: clients name them by the address at which they know the control plane, which
 * is often their loopback and leads nowhere from inside. Only requests with the session key of this server go
 * there; the control plane answers them for this sandbox alone, and never by a redirect: its place would be
 * that of the address which the client named, where a program of the agent may listen for the key.
 */
export function controlPlaneFetch(
  { webhooks, sessionKeys }: Pick<Config, 'webhooks' | 'sessionKeys'>,
  fetch: typeof globalThis.fetch = unixFetch,
): typeof globalThis.fetch {
  const receiver = webhooks.find(
    ({ base_url }) => webhooksPath.test(base_url) && URL.parse(base_url)?.username === '',
  )
  const base = receiver?.base_url.replace(webhooksPath, '')
  if (base === undefined) return fetch
  return (input, init) => {
    const url = input instanceof Request ? null : URL.parse(String(input))
    const path = url?.search === '' ? secretPath.exec(url.pathname)?.[0] : undefined
    const key = new Headers(init?.headers).get('x-session-api-key')
    const isOwn = sessionKeys.some((own) => own.reveal() === key)
    if (path === undefined || !isOwn) return fetch(input, init)
    return fetch(base + path, { ...init, redirect: 'error' })
  }
}
