export interface ApiEvent {
  readonly id: string
  readonly timestamp: string
  readonly kind: string
  readonly source?: string
  readonly [member: string]: unknown
}

export interface EventPage {
  readonly items: readonly ApiEvent[]
  readonly next_page_id: string | null
}

/** Where a server listens, and the headers that every request needs. */
export interface Endpoint {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** Sees a copy of each response. */
export type ResponseObserver = (response: Response, init: RequestInit) => Promise<void>

/** The calls that the suites share: plain fetch, without any code of the product between test and wire. */
export class AgentServerApi {
  readonly endpoint: Endpoint
  readonly #onResponse: ResponseObserver | undefined

  constructor(endpoint: Endpoint, onResponse?: ResponseObserver) {
    this.endpoint = endpoint
    this.#onResponse = onResponse
  }

  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const { url, headers } = this.endpoint
    const response = await fetch(`${url}${path}`, { ...init, headers: { ...headers, ...init.headers } })
    await this.#onResponse?.(response.clone(), init)
    return response
  }

  async requestJson<T = unknown>(path: string, init?: RequestInit): Promise<{ status: number; body: T }> {
    const response = await this.fetch(path, init)
    return { status: response.status, body: (await response.json()) as T }
  }

  async sendJson(method: string, path: string, body: unknown): Promise<{ status: number; body: unknown }> {
    return await this.requestJson(path, {
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  }

  /** Imports lines and returns the conversation's id. */
  async import(lines: string | Uint8Array<ArrayBuffer>, query = ''): Promise<string> {
    const { status, body } = await this.requestJson<{ conversation_id: string }>(
      `/api/conversations/import${query}`,
      {
        method: 'POST',
        headers: { 'content-type': 'application/x-ndjson' },
        body: lines,
      },
    )
    if (status !== 201) throw new Error(`import answered ${status}: ${JSON.stringify(body)}`)
    return body.conversation_id
  }

  async export(id: string): Promise<Buffer> {
    const response = await this.fetch(`/api/conversations/${id}/export`)
    return Buffer.from(await response.arrayBuffer())
  }

  async search(id: string, query: Readonly<Record<string, string>> = {}): Promise<EventPage> {
    const { status, body } = await this.requestJson<EventPage>(
      `/api/conversations/${id}/events/search?${new URLSearchParams(query)}`,
    )
    if (status !== 200) throw new Error(`search answered ${status}: ${JSON.stringify(body)}`)
    return body
  }

  /** All events of a page walk. */
  async searchAll(id: string, query: Readonly<Record<string, string>> = {}): Promise<ApiEvent[]> {
    const events: ApiEvent[] = []
    for (let page_id: string | null = ''; page_id !== null; ) {
      const page: EventPage = await this.search(id, { ...query, ...(page_id === '' ? {} : { page_id }) })
      events.push(...page.items)
      page_id = page.next_page_id
    }
    return events
  }

  async count(id: string, query: Readonly<Record<string, string>> = {}): Promise<number> {
    return (
      await this.requestJson<number>(`/api/conversations/${id}/events/count?${new URLSearchParams(query)}`)
    ).body
  }
}

/** A user message as a line of an import. */
export function messageLine(id: string, timestamp: string, text: string, source = 'user'): string {
  const llm_message = { role: source === 'user' ? 'user' : 'assistant', content: [{ type: 'text', text }] }
  return JSON.stringify({ id, timestamp, source, llm_message, kind: 'MessageEvent' })
}

/** Text of an import. */
export function toJsonLines(...events: readonly (string | object)[]): string {
  return events.map((event) => `${typeof event === 'string' ? event : JSON.stringify(event)}\n`).join('')
}
