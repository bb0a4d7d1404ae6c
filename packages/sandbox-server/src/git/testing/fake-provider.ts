/** The interface of a Git provider in the process of a test, with pages as real ones have them. */

export const fakeToken = 'token-of-the-user-0123456789'

type Item = Readonly<Record<string, unknown>>

export class FakeProvider {
  readonly #lists: Readonly<Record<string, readonly Item[]>>
  readonly #connections: (query: string, variables: Item) => Item
  readonly requests: { readonly url: URL; readonly method: string; readonly body: string }[] = []
  /** The answer to each request whose address contains the text, in place of the usual one. */
  failures: Readonly<Record<string, () => Response>> = {}
  /** The header that is accepted; null: none. */
  authorization: string | null = `Bearer ${fakeToken}`

  /** `lists` by path of the interface, items or the one object; `connections` answers GraphQL. */
  constructor(
    lists: Readonly<Record<string, readonly Item[]>>,
    connections: (query: string, variables: Item) => Item = () => ({}),
  ) {
    this.#lists = lists
    this.#connections = connections
  }

  readonly fetch = async (address: string, init: RequestInit): Promise<Response> => {
    init.signal?.throwIfAborted()
    const url = new URL(address)
    const { method = 'GET' } = init
    const body = String(init.body ?? '')
    this.requests.push({ url, method, body })
    const failure = Object.keys(this.failures).find((text) => address.includes(text))
    if (failure !== undefined) return this.failures[failure]?.() ?? Response.error()
    if (new Headers(init.headers).get('authorization') !== this.authorization)
      return Response.json({ message: 'Bad credentials' }, { status: 401 })
    if (url.pathname.endsWith('/graphql')) {
      const { query, variables } = JSON.parse(body) as { query: string; variables: Item }
      return Response.json(this.#connections(query, variables))
    }
    return this.#page(url)
  }

  #page(url: URL): Response {
    const path = url.pathname.replace(/^.*\/api\/v\d|^\/2\.0/, '')
    const list = this.#lists[path]
    if (list === undefined) return Response.json({ message: 'Not Found' }, { status: 404 })
    const text = url.searchParams.get('q') ?? url.searchParams.get('search') ?? ''
    const found = list.filter((item) => matches(item, text))
    if (!url.searchParams.has('page')) return Response.json(list.length === 1 ? list[0] : list)
    const { searchParams } = url
    const page = Number(searchParams.get('page'))
    const sizes = ['per_page', 'limit', 'pagelen'].map((name) => Number(searchParams.get(name)))
    const size = Math.min(Math.max(...sizes), 100)
    const items = found.slice((page - 1) * size, page * size)
    const next = new URL(url)
    next.searchParams.set('page', String(page + 1))
    const hasNext = page * size < found.length
    if (searchParams.has('pagelen'))
      return Response.json({ values: items, ...(hasNext ? { next: next.href } : {}) })
    const member = wrappers[path.replace(/\d+/, 'ID')]
    const body = member === undefined ? items : { [member]: items }
    return Response.json(body, { headers: hasNext ? { link: `<${next}>; rel="next"` } : {} })
  }
}

/** Members of the answers that are no plain lists. */
const wrappers: Readonly<Record<string, string>> = {
  '/search/repositories': 'items',
  '/user/installations': 'installations',
  '/user/installations/ID/repositories': 'repositories',
  '/repos/search': 'data',
}

/** A search is one of names, by its words that are no qualifiers; owners by their qualifiers. */
function matches(item: Item, text: string): boolean {
  const words = text
    .replace(/^name ~ "(.*)"$/, '$1')
    .split(' ')
    .filter((word) => word !== '')
  const owners = words.filter((word) => /^(?:user|org):/.test(word)).map((word) => word.replace(/^\w+:/, ''))
  const names = words.filter((word) => !word.includes(':'))
  const full = String(item.full_name ?? item.path_with_namespace ?? item.name ?? '')
  const isOwned = owners.length === 0 || owners.includes(full.split('/')[0] ?? '')
  return isOwned && names.every((name) => full.includes(name))
}

/** A page of a GraphQL connection, `size` items long; cursors are places. */
export function connection(items: readonly Item[], after: unknown, size: number): Item {
  const start = Number(after ?? 0)
  const end = start + size
  return {
    pageInfo: { hasNextPage: end < items.length, endCursor: String(end) },
    nodes: items.slice(start, end),
  }
}
