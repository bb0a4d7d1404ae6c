import { buildRoutePath, Problem, type ProblemCode } from '@slipway/protocol'
import { readJson } from '@slipway/shared/async'
import { asRecord, isRecord } from '@slipway/shared/json'
import { PrivateAddressError } from '@slipway/shared/network'
import { unknownPageId } from '@slipway/storage'
import type { ProviderList } from './paged-list.ts'

/**
 * Of an answer, which is parsed on the main thread: two MiB of empty objects take 0.1 s, six take a second.
 * Pages of what has long texts are smaller (`perPage`).
 */
const maxBytes = 2 * 1024 * 1024
/** Of one list. A host that somebody names could send millions of empty objects, which all would be read. */
const maxItems = 1_000
const maxRetryAfterSeconds = 3_600
/** Items of a page of a provider, the most that all of them give. */
const pageSize = 100
/** Of issues, each with a text of up to 64 KiB. */
export const issuesPerPage = 25

export type ProviderFetch = (url: string, init: RequestInit) => Promise<Response>

export interface ProviderApiOptions {
  /** Its name on the wire, which errors begin with. */
  readonly name: string
  /** Of the REST interface, without a slash at its end. */
  readonly url: string
  readonly graphqlUrl?: string
  /** Undefined: only what everybody may read. */
  readonly authorization: string | undefined
  readonly fetch: ProviderFetch
  /** Of the caller. */
  readonly signal: AbortSignal
  /** The end of the time for all requests of one call. */
  readonly deadline: AbortSignal
}

export interface ProviderAnswer {
  readonly body: unknown
  /** The header `Link`. */
  readonly link: string | null
}

type Query = Readonly<Record<string, string | number | undefined>>

interface ListOptions<T> {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Query
  /** The name of the parameter for the size of a page. */
  readonly size?: 'per_page' | 'limit' | 'pagelen'
  /** Items of a page; 100 unless given. */
  readonly perPage?: number
  readonly read: (answer: ProviderAnswer) => readonly T[]
  /** Whether there is another page; unless given, the header `Link` says so. */
  readonly hasNext?: (answer: ProviderAnswer) => boolean
}

/**
 * Requests to the interface of a Git provider with a user's token. Rejects with Problems in words of this
 * server alone: what a provider answers, and what the connection says, may repeat the token.
 */
export class ProviderApi {
  readonly #options: ProviderApiOptions

  constructor(options: ProviderApiOptions) {
    this.#options = options
  }

  /** `path` as in a route table; its parameters are encoded. */
  async get(
    path: string,
    { params = {}, query = {} }: Pick<ListOptions<never>, 'params' | 'query'> = {},
  ): Promise<ProviderAnswer> {
    const url = new URL(this.#options.url + buildRoutePath({ path }, params))
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, String(value))
    return await this.#request(url.href, {})
  }

  /** A list whose pages have numbers. */
  list<T>(
    path: string,
    { params, query, size = 'per_page', perPage = pageSize, read, hasNext = hasNextLink }: ListOptions<T>,
  ): ProviderList<T> {
    return async (cursor = '1') => {
      if (!/^[1-9]\d{0,5}$/.test(cursor)) throw unknownPageId()
      const answer = await this.get(path, {
        ...(params && { params }),
        query: { ...query, [size]: perPage, page: cursor },
      })
      return { items: read(answer), next: hasNext(answer) ? String(Number(cursor) + 1) : undefined }
    }
  }

  /** The member `data` of the answer. */
  async graphql(
    query: string,
    variables: Readonly<Record<string, unknown>>,
  ): Promise<Record<string, unknown>> {
    const { graphqlUrl = '' } = this.#options
    const { body } = await this.#request(graphqlUrl, {
      method: 'POST',
      body: JSON.stringify({ query, variables }),
    })
    const { data, errors } = asRecord(body)
    if (errors !== undefined) throw this.#graphqlProblem(Array.isArray(errors) ? errors : [])
    if (!isRecord(data)) throw this.unexpected()
    return data
  }

  /** An answer is not what the provider documents. */
  unexpected(): Problem {
    return new Problem('bad_gateway', `${this.#options.name} API sent an unexpected answer`)
  }

  /** The objects of a list, which has at most some pages of items. */
  records(value: unknown): readonly Record<string, unknown>[] {
    if (Array.isArray(value) && value.length <= maxItems && value.every(isRecord)) return value
    throw this.unexpected()
  }

  async #request(url: string, init: RequestInit): Promise<ProviderAnswer> {
    const { name, authorization, fetch, signal, deadline } = this.#options
    let response: Response
    try {
      response = await fetch(url, {
        ...init,
        headers: {
          ...(authorization === undefined ? {} : { authorization }),
          accept: 'application/json',
          'user-agent': 'slipway',
          ...(init.body == null ? {} : { 'content-type': 'application/json' }),
        },
        redirect: 'manual',
        signal: AbortSignal.any([signal, deadline]),
      })
      if (response.ok) return { body: await readJson(response, maxBytes), link: response.headers.get('link') }
    } catch (error) {
      signal.throwIfAborted()
      if (deadline.aborted) throw new Problem('timeout', `${name} API request timed out`)
      if (error instanceof PrivateAddressError)
        throw new Problem('bad_request', `The host of ${name} is in a private network or on this machine`)
      throw new Problem('bad_gateway', `${name} API cannot be reached or sent no valid answer`)
    }
    await response.body?.cancel()
    throw this.#statusProblem(response)
  }

  #statusProblem({ status, headers }: Response): Problem {
    const { name } = this.#options
    const isLimit = headers.has('retry-after') || headers.get('x-ratelimit-remaining') === '0'
    if (status === 429 || (status === 403 && isLimit)) return this.#rateLimitProblem(headers)
    if (status === 401) return new Problem('unauthorized', `Invalid ${name} token`)
    if (status === 403) return new Problem('forbidden', `The ${name} token may not read that`)
    if (status === 404) return new Problem('not_found', `Resource not found on ${name} API`)
    if (status >= 400 && status < 500)
      return new Problem('bad_request', `${name} API refuses the request with status ${status}`)
    if (status >= 300 && status < 400)
      return new Problem('bad_gateway', `${name} API redirects the request, which is not followed`)
    return new Problem('bad_gateway', `${name} API answers with status ${status}`)
  }

  #rateLimitProblem(headers: Headers | undefined): Problem {
    const problem = new Problem('too_many', `${this.#options.name} API rate limit exceeded`)
    const seconds = Number(headers?.get('retry-after') ?? Number.NaN)
    if (seconds >= 1) problem.retryAfterSeconds = Math.min(Math.ceil(seconds), maxRetryAfterSeconds)
    return problem
  }

  #graphqlProblem(errors: readonly unknown[]): Problem {
    const { name } = this.#options
    const types = errors.map((error) => asRecord(error).type)
    if (types.includes('RATE_LIMITED')) return this.#rateLimitProblem(undefined)
    if (types.includes('NOT_FOUND')) return new Problem('not_found', `Resource not found on ${name} API`)
    if (types.some((type) => type === 'FORBIDDEN' || type === 'INSUFFICIENT_SCOPES'))
      return new Problem('forbidden', `The ${name} token may not read that`)
    return new Problem('bad_gateway', `${name} API refuses a GraphQL query`)
  }
}

function hasNextLink({ link }: ProviderAnswer): boolean {
  return /;\s*rel="?next\b/.test(link ?? '')
}

/** The problem of a rejection, if it has one of these codes; everything else is thrown again. */
export function acceptProblem(error: unknown, ...codes: readonly ProblemCode[]): Problem {
  if (error instanceof Problem && codes.includes(error.code)) return error
  throw error
}

/** A text of an answer; null for anything else. */
export function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

export function integerOrNull(value: unknown): number | null {
  return Number.isSafeInteger(value) ? (value as number) : null
}

/** An id of an answer, which is a number or a text. */
export function idText(value: unknown): string {
  return typeof value === 'number' || typeof value === 'string' ? String(value) : ''
}
