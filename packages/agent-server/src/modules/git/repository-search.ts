import { type GitProviderRepository, Problem, serverFailure } from '@slipway/protocol'
import { readJson } from '@slipway/shared/async'
import type { ServerSecrets } from '../../core/secrets/server-secrets.ts'

/** Names of the secret that may hold the token, in this order. */
const tokenNames = ['github_token', 'GITHUB_TOKEN', 'GH_TOKEN', 'github']
const timeoutMs = 15_000
const maxBytes = 16 * 1024 * 1024
/** Repositories of a request to GitHub, its maximum. */
const pageSize = 100
/** Requests to GitHub for one page of ours: a query that matches little continues at the next one. */
const maxRequests = 5

interface RepositoryPage {
  readonly items: readonly GitProviderRepository[]
  readonly next_page_id: string | null
  readonly missing_token: boolean
}

interface RepositoryQuery {
  readonly provider: 'github' | 'gitlab' | 'bitbucket'
  readonly query?: string | undefined
  readonly limit: number
  readonly page_id?: string | undefined
}

/** Finds the repositories that the stored token of a Git host may read. */
export class RepositorySearch {
  readonly #options: {
    readonly secrets: Pick<ServerSecrets, 'getValue'>
    readonly apiUrl: string
    readonly fetch: typeof fetch
  }

  constructor(options: {
    readonly secrets: Pick<ServerSecrets, 'getValue'>
    /** Of GitHub, without a slash at its end. */
    readonly apiUrl: string
    readonly fetch: typeof fetch
  }) {
    this.#options = options
  }

  /** Problems: `bad_request` for a host or page id, what GitHub refuses, `bad_gateway`, `timeout`. */
  async search(request: RepositoryQuery, signal: AbortSignal): Promise<RepositoryPage> {
    const { provider, limit } = request
    if (provider !== 'github')
      throw new Problem('bad_request', `Repository discovery is not supported for provider '${provider}'`)
    const token = await this.#findToken()
    if (token === undefined) return { items: [], next_page_id: null, missing_token: true }
    const wanted = request.query?.toLowerCase() ?? ''
    let { page, offset } = parsePageId(request.page_id)
    const items: GitProviderRepository[] = []
    for (let count = 0; count < maxRequests; count++) {
      const found = await this.#readPage(page, token, signal)
      for (; offset < found.length; offset++) {
        if (items.length === limit) return { items, next_page_id: `${page}:${offset}`, missing_token: false }
        const item = toRepository(found[offset])
        if (item.full_name.toLowerCase().includes(wanted)) items.push(item)
      }
      if (found.length < pageSize) return { items, next_page_id: null, missing_token: false }
      page += 1
      offset = 0
    }
    return { items, next_page_id: `${page}:0`, missing_token: false }
  }

  async #findToken(): Promise<string | undefined> {
    for (const name of tokenNames) {
      const value = (await this.#options.secrets.getValue(name))?.trim()
      if (value !== undefined && value !== '') return value
    }
    return undefined
  }

  async #readPage(page: number, token: string, signal: AbortSignal): Promise<readonly unknown[]> {
    const { apiUrl, fetch } = this.#options
    const affiliation = 'owner,collaborator,organization_member'
    const query = `per_page=${pageSize}&page=${page}&sort=pushed&affiliation=${affiliation}`
    const headers = {
      accept: 'application/vnd.github+json',
      authorization: `Bearer ${token}`,
      'x-github-api-version': '2022-11-28',
    }
    const limit = AbortSignal.timeout(timeoutMs)
    let response: Response
    let body: unknown
    try {
      response = await fetch(`${apiUrl}/user/repos?${query}`, {
        headers,
        redirect: 'error',
        signal: AbortSignal.any([signal, limit]),
      })
      body = response.ok ? await readJson(response, maxBytes) : undefined
    } catch (error) {
      signal.throwIfAborted()
      if (limit.aborted) throw serverFailure('timeout', '504: GitHub repository search timed out')
      if (error instanceof Error) throw failed()
      throw error
    }
    if (Array.isArray(body)) return body
    const { status } = response
    if (status < 400 || status >= 500) throw failed()
    const code = status === 401 ? 'unauthorized' : status === 403 ? 'forbidden' : 'bad_request'
    throw new Problem(code, 'GitHub repository search failed')
  }
}

function failed(): Problem {
  return serverFailure('bad_gateway', '502: GitHub repository search failed')
}

/** `page:offset`, or the page alone. */
function parsePageId(text: string | undefined): { page: number; offset: number } {
  if (text === undefined || text === '') return { page: 1, offset: 0 }
  const [, page = '0', offset = '0'] = /^(\d{1,6})(?::(\d{1,3}))?$/.exec(text) ?? []
  if (Number(page) < 1) throw new Problem('bad_request', 'Invalid repository page_id')
  return { page: Number(page), offset: Number(offset) }
}

function toRepository(value: unknown): GitProviderRepository {
  const item = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>
  const text = (member: unknown) => (typeof member === 'string' ? member : null)
  return {
    id: String(item.id ?? ''),
    full_name: text(item.full_name) ?? '',
    git_provider: 'github',
    is_public: item.private !== true,
    stargazers_count: typeof item.stargazers_count === 'number' ? item.stargazers_count : null,
    pushed_at: text(item.pushed_at),
    main_branch: text(item.default_branch),
  }
}
