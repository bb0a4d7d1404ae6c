import { setTimeout as sleep } from 'node:timers/promises'
import { Problem, serverFailure } from '@slipway/protocol'
import { readLimited } from '@slipway/shared/async'
import { isRecord, parseJson } from '@slipway/shared/json'
import { Secret } from '@slipway/shared/redaction'

const timeoutMs = 5_000
const maxBytes = 1024 * 1024
/** Before the second and the third attempt. */
const retryDelaysMs = [250, 500]

/** A credential and the version by which its source knows whether it has changed. */
interface VersionedCredential {
  readonly value: Secret
  readonly version: string
}

interface CredentialSourceOptions {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly fetch: typeof fetch
}

/**
 * A credential that lives elsewhere: GET answers `{value, version}`, PUT takes `{expected_version, value}`.
 * Address and headers stay in memory; nothing of an answer is logged. Failures are Problems with the texts of
 * the interface: `forbidden`, `invalid`, `conflict`, `not_implemented` and, after three attempts,
 * `bad_gateway`.
 */
export class CredentialSource {
  readonly #url: string
  readonly #fetch: typeof fetch
  #headers: ReadonlyMap<string, Secret>

  constructor({ url, headers, fetch }: CredentialSourceOptions) {
    this.#url = url
    this.#fetch = fetch
    this.#headers = new Map(Object.entries(headers).map(([name, value]) => [name, new Secret(value)]))
  }

  /** Takes the headers of a source at the same address; false for another one. */
  reauthorize(other: CredentialSource): boolean {
    if (other.#url !== this.#url) return false
    this.#headers = other.#headers
    return true
  }

  async load(signal: AbortSignal): Promise<VersionedCredential> {
    const answer = await this.#request({ method: 'GET' }, signal)
    if (!isRecord(answer) || typeof answer.value !== 'string') throw invalidSource()
    return { value: new Secret(answer.value), version: readVersion(answer) }
  }

  /** Returns the new version. */
  async replace(expectedVersion: string, value: Secret, signal: AbortSignal): Promise<string> {
    const body = JSON.stringify({ expected_version: expectedVersion, value: value.reveal() })
    return readVersion(await this.#request({ method: 'PUT', body }, signal))
  }

  async #request(init: RequestInit, signal: AbortSignal): Promise<unknown> {
    if (!/^https?:$/.test(URL.parse(this.#url)?.protocol ?? '')) throw invalidSource()
    for (const delayMs of [...retryDelaysMs, undefined]) {
      const answer = await this.#attempt(init, signal)
      if (answer !== undefined) return answer.json
      if (delayMs !== undefined) await sleep(delayMs, undefined, { signal })
    }
    throw serverFailure('bad_gateway', '502: Credential binding source is unavailable')
  }

  /** Undefined when it may be repeated. */
  async #attempt(init: RequestInit, signal: AbortSignal): Promise<{ readonly json: unknown } | undefined> {
    let status: number
    let text: string | undefined
    try {
      const headers = [...this.#headers].map(([name, value]) => [name, value.reveal()] as [string, string])
      const response = await this.#fetch(this.#url, {
        ...init,
        headers: [
          ...headers,
          ...(init.body === undefined ? [] : [['content-type', 'application/json'] as [string, string]]),
        ],
        redirect: 'error',
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      })
      status = response.status
      text = (await readLimited(response, maxBytes))?.toString()
    } catch (error) {
      if (signal.aborted) throw error
      return undefined
    }
    if (status >= 200 && status < 300) return { json: parseJson(text ?? '') }
    if (status === 401 || status === 403) throw rejectedBinding()
    if (status === 400 || status === 404 || status === 422) throw invalidSource()
    if (status === 409) throw new Problem('conflict', 'Credential binding source changed')
    if (status === 501)
      throw serverFailure('not_implemented', '501: Credential binding source is unsupported')
    return undefined
  }
}

/** The holder of the key may not give this credential to this conversation. */
export function rejectedBinding(): Problem {
  return new Problem('forbidden', 'Credential binding authorization was rejected')
}

function invalidSource(): Problem {
  return new Problem('invalid', 'Credential binding source is invalid')
}

function readVersion(answer: unknown): string {
  if (!isRecord(answer) || typeof answer.version !== 'string' || answer.version === '') throw invalidSource()
  return answer.version
}
