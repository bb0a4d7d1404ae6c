import type { LogFunction } from '@slipway/protocol'
import { readLimited } from '@slipway/shared/async'
import type { Secret } from '@slipway/shared/redaction'

const maxBytes = 16_384

/** The present key of a base URL; undefined when it has no managed key, or the source fails. */
export type KeyRefresh = (baseUrl: string, signal: AbortSignal) => Promise<string | undefined>

interface KeyRefreshOptions {
  /** Answers a GET with the present key as text. */
  readonly url: Secret
  /** The only base URLs to which the key may be sent, without a slash at the end. */
  readonly baseUrls: readonly string[]
  readonly headers: Readonly<Record<string, Secret>>
  readonly fetch: typeof fetch
  readonly log: LogFunction
  /** How long an answer may take; 10 s unless passed. */
  readonly timeoutMs?: number
}

/**
 * Fetches managed keys that their provider has rejected again. Only models at listed base URLs get
 * the key: that of a user's own provider is never replaced. Nothing of the answer is logged or stored.
 */
export function createKeyRefresh(options: KeyRefreshOptions): KeyRefresh {
  const { url, baseUrls, headers, fetch, log, timeoutMs = 10_000 } = options
  if (baseUrls.length === 0)
    log('warn', 'no base URL has managed keys: the refresh of rejected keys stays off', {
      setting: 'SLIPWAY_LLM_API_KEY_REFRESH_BASE_URLS',
    })
  return async (baseUrl, signal) => {
    if (!baseUrls.includes(baseUrl.replace(/\/+$/, ''))) return undefined
    log('info', 'the key of a model was rejected and is fetched again')
    const timeout = AbortSignal.timeout(timeoutMs)
    try {
      const response = await fetch(url.reveal(), {
        headers: Object.entries(headers).map(([name, value]) => [name, value.reveal()]),
        redirect: 'error',
        signal: AbortSignal.any([signal, timeout]),
      })
      const bytes = response.ok ? await readLimited(response, maxBytes) : undefined
      const key = bytes?.toString().trim() ?? ''
      if (/^[\x21-\x7e]+$/.test(key)) return key
      await response.body?.cancel()
      log('warn', 'the source of managed keys gave no key', { status: response.status })
    } catch {
      // Errors may have the address, whose query may have a secret.
      if (!signal.aborted)
        log('warn', 'the source of managed keys does not answer', { isLate: timeout.aborted })
    }
    return undefined
  }
}
