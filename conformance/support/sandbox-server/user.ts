import { setTimeout as sleep } from 'node:timers/promises'
import { type JsonResponse, type SandboxInfo, SandboxServer, type SandboxServerOptions } from './server.ts'

/** A start task as the API returns it. */
export interface StartTask {
  readonly id: string
  readonly status: string
  readonly detail: string | null
  readonly app_conversation_id: string | null
  readonly sandbox_id: string | null
  readonly agent_server_url: string | null
  readonly [member: string]: unknown
}

/** A conversation as the API returns it. */
export interface AppConversation {
  readonly id: string
  readonly sandbox_id: string
  readonly sandbox_status: string
  readonly execution_status: string | null
  readonly title: string | null
  readonly [member: string]: unknown
}

export interface ListPage<T> {
  readonly items: readonly T[]
  readonly next_page_id: string | null
}

/** A model that answers each message with one text. */
export const textModel = {
  model: 'scripted/talker',
  script: Array.from({ length: 50 }, (_, n) => ({ text: `Answer ${n}.` })),
}

/** A user of a sandbox server with their own key. */
export class User {
  readonly id: string
  readonly key: string
  readonly #server: SandboxServer

  constructor(server: SandboxServer, about: { readonly id: string; readonly key: string }) {
    this.#server = server
    this.id = about.id
    this.key = about.key
  }

  async requestJson<T = unknown>(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<JsonResponse<T>> {
    return await this.#server.requestJson<T>(method, path, body, {
      headers: { authorization: `Bearer ${this.key}`, ...headers },
    })
  }

  /** The body of a reply with status 200 or 201; throws for any other status. */
  async get<T = unknown>(path: string): Promise<T> {
    return await this.requestOrThrow<T>('GET', path)
  }

  async requestOrThrow<T = unknown>(method: string, path: string, body?: unknown): Promise<T> {
    const answer = await this.requestJson<T>(method, path, body)
    if (answer.status >= 300)
      throw new Error(`${method} ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`)
    return answer.body
  }

  /** Sets the model of new conversations of this user. */
  async setModel(llm: object): Promise<void> {
    await this.requestOrThrow('POST', '/api/v1/settings', { agent_settings_diff: { llm } })
  }

  /** Starts a conversation and returns every task of the stream. */
  async startConversation(request: object = {}): Promise<readonly StartTask[]> {
    return await this.requestOrThrow('POST', '/api/v1/app-conversations/stream-start', request)
  }

  /** Starts a conversation and waits until it is READY. */
  async createConversation(request: object = {}): Promise<AppConversation> {
    const last = (await this.startConversation(request)).at(-1)
    if (last?.status !== 'READY') throw new Error(`the start ended with ${JSON.stringify(last)}`)
    const found = await this.getConversation(String(last.app_conversation_id))
    if (found === undefined) throw new Error('a READY conversation does not exist')
    return found
  }

  async getConversation(id: string): Promise<AppConversation | undefined> {
    return (await this.get<(AppConversation | null)[]>(`/api/v1/app-conversations?ids=${id}`))[0] ?? undefined
  }

  async getSandbox(id: string): Promise<SandboxInfo | undefined> {
    return (await this.get<(SandboxInfo | null)[]>(`/api/v1/sandboxes?id=${id}`))[0] ?? undefined
  }

  /** Starts a sandbox and waits until it is RUNNING. */
  async startRunningSandbox(query = ''): Promise<SandboxInfo> {
    const { id } = await this.requestOrThrow<SandboxInfo>('POST', `/api/v1/sandboxes${query}`)
    return await this.waitForSandbox(id, 'RUNNING')
  }

  async waitForSandbox(id: string, status: string): Promise<SandboxInfo> {
    return await waitFor(`the sandbox is ${status}`, async () => {
      const found = await this.getSandbox(id)
      return found?.status === status ? found : undefined
    })
  }

  async sendMessage(
    conversation: string,
    text: string,
  ): Promise<JsonResponse<{ readonly detail?: unknown }>> {
    const body = { content: [{ type: 'text', text }] }
    return await this.requestJson('POST', `/api/v1/app-conversations/${conversation}/send-message`, body)
  }

  /** Waits until a message with this text is ingested. */
  async waitForMessage(conversation: string, text: string): Promise<void> {
    const path = `/api/v1/conversation/${conversation}/events/search?body=${encodeURIComponent(text)}`
    await waitFor(`"${text}" is ingested`, async () => {
      const { items } = await this.get<ListPage<unknown>>(path)
      return items.length > 0 ? true : undefined
    })
  }

  /** The stored log of a conversation, an event a line. */
  async exportLog(conversation: string): Promise<string> {
    const response = await this.#server.fetch(`/api/v1/conversation/${conversation}/events/export`, {
      headers: { authorization: `Bearer ${this.key}` },
    })
    return await response.text()
  }

  /** All items of a list, page by page. */
  async listAll<T>(path: string, limit: number): Promise<T[]> {
    const found: T[] = []
    for (let page = ''; ; ) {
      const { items, next_page_id }: ListPage<T> = await this.get(
        `${path}${path.includes('?') ? '&' : '?'}limit=${limit}${page}`,
      )
      found.push(...items)
      if (next_page_id === null) return found
      page = `&page_id=${encodeURIComponent(next_page_id)}`
    }
  }
}

/** The user whose key the server was started with. */
export function administrator(server: SandboxServer): User {
  return new User(server, { id: 'admin', key: server.key })
}

/** Creates a user. `about`: more members of the user. */
export async function createUser(server: SandboxServer, fields: object = {}): Promise<User> {
  const { id } = await administrator(server).requestOrThrow<{ id: string }>('POST', '/api/admin/users', {
    name: 'A user',
    ...fields,
  })
  return await createUserKey(server, id)
}

/** Reads a secret as a program in a sandbox does, or with `name` empty their list. */
export async function lookUpSecret(
  server: SandboxServer,
  sandbox: string,
  name: string,
  headers: Readonly<Record<string, string>>,
): Promise<{ readonly status: number; readonly text: string }> {
  const path = `/api/v1/sandboxes/${sandbox}/settings/secrets${name === '' ? '' : `/${name}`}`
  const response = await fetch(server.url + path, { headers })
  return { status: response.status, text: await response.text() }
}

/** A user with another key. */
export async function createUserKey(server: SandboxServer, id: string, request: object = {}): Promise<User> {
  const path = `/api/admin/users/${id}/keys`
  const { key } = await administrator(server).requestOrThrow<{ key: string }>('POST', path, request)
  return new User(server, { id, key })
}

/** A sandbox server that deletes the sandboxes of all its users on disposal. */
export interface SandboxServerFixture extends AsyncDisposable {
  readonly server: SandboxServer
}

export async function openSandboxServer(options: SandboxServerOptions = {}): Promise<SandboxServerFixture> {
  const env = { SLIPWAY_RECONCILE_SECONDS: '1', ...options.env }
  const server = await SandboxServer.open({ ...options, env })
  return {
    server,
    async [Symbol.asyncDispose]() {
      try {
        await removeSandboxes(server)
      } finally {
        await server[Symbol.asyncDispose]()
      }
    },
  }
}

async function removeSandboxes(server: SandboxServer): Promise<void> {
  for (const { id } of await administrator(server).listAll<{ id: string }>('/api/admin/users', 100)) {
    const user = await createUserKey(server, id)
    // A start that is under way would create a sandbox later.
    await waitFor('nothing is being started', async () => {
      const tasks = await user.listAll<StartTask>('/api/v1/app-conversations/start-tasks/search', 100)
      return tasks.every(({ status }) => status === 'READY' || status === 'ERROR') ? true : undefined
    })
    for (const sandbox of await user.listAll<SandboxInfo>('/api/v1/sandboxes/search', 100))
      await user.requestJson('DELETE', `/api/v1/sandboxes/${sandbox.id}`)
  }
}

/** Polls until the function returns a value. */
export async function waitFor<T>(
  what: string,
  find: () => Promise<T | undefined>,
  patienceMs = 60_000,
): Promise<T> {
  for (const deadline = Date.now() + patienceMs; Date.now() < deadline; await sleep(50)) {
    const found = await find()
    if (found !== undefined) return found
  }
  throw new Error(`timed out: ${what}`)
}
