import { randomUUID } from 'node:crypto'
import { isAbsolute } from 'node:path'
import {
  type AgentApp,
  type AgentContext,
  type AgentRequestHandlersByMethod,
  agent,
  type InitializeRequest,
  type InitializeResponse,
  type ListSessionsRequest,
  type ListSessionsResponse,
  type McpServer,
  methods,
  type NewSessionRequest,
  type NewSessionResponse,
  PROTOCOL_VERSION,
  RequestError,
} from '@agentclientprotocol/sdk/unstable'
import type { ConversationInfo } from '@slipway/protocol'
import ownPackage from '../../package.json' with { type: 'json' }
import {
  buildAgent,
  buildConfirmationSettings,
  buildLlm,
  type SelectedModel,
} from '../conversation/agent-request.ts'
import { type McpServerInput, readAgentMcpServers } from '../conversation/mcp-servers.ts'
import { readSavedModel } from '../conversation/saved-model.ts'
import type { ConfirmationChoice } from '../session/session.ts'
import { isUnknownSession, toRequestError } from './failures.ts'
import type { ServerLink } from './server-link.ts'
import { EditorSession } from './session.ts'

interface EditorAgentOptions {
  readonly link: ServerLink
  /** Of new sessions, instead of the saved model. */
  readonly model: SelectedModel | undefined
  /** Of new sessions. */
  readonly confirmation: ConfirmationChoice
}

const pageSize = 50
/** A list of one directory looks through at most 20 pages for its next items. */
const maxPages = 20

const noModel =
  'There is no model yet. Run "slipway acp --setup" in a terminal and choose one, or set LLM_MODEL and LLM_API_KEY in the settings of the editor.'

/** The sessions of one editor, and what it may ask of them. */
export class EditorAgent {
  readonly #link: ServerLink
  readonly #options: EditorAgentOptions
  readonly #sessions = new Map<string, EditorSession>()
  #sender: string | undefined

  constructor(options: EditorAgentOptions) {
    this.#link = options.link
    this.#options = options
  }

  /** The protocol's methods. Failures are answered with what to do next. */
  app(): AgentApp {
    const app = agent({ name: 'slipway' })
    const on = <M extends keyof AgentRequestHandlersByMethod>(
      method: M,
      handler: AgentRequestHandlersByMethod[M],
    ): void => {
      const guarded = async (context: never) => {
        try {
          return await (handler as (context: never) => unknown)(context)
        } catch (error) {
          throw toRequestError(error)
        }
      }
      app.onRequest(method, guarded as AgentRequestHandlersByMethod[M]) // the same parameters and results
    }
    const { session } = methods.agent
    on(methods.agent.initialize, ({ params }) => this.#initialize(params))
    on(methods.agent.authenticate, async () => void (await this.#model()))
    on(session.new, ({ params, client }) => this.#new(params, client))
    on(session.list, ({ params }) => this.#list(params))
    on(session.load, ({ params, client }) => this.#join(params.sessionId, client, { replay: true }))
    on(session.resume, ({ params, client }) => this.#join(params.sessionId, client, { replay: false }))
    on(session.fork, ({ params, client }) => this.#fork(params.sessionId, client))
    on(session.close, ({ params }) => this.#close(params.sessionId))
    on(session.delete, ({ params }) => this.#delete(params.sessionId))
    on(session.setMode, async ({ params }) => {
      await this.#session(params.sessionId).choose('mode', params.modeId)
      return {}
    })
    on(session.setConfigOption, async ({ params }) => {
      const { configOptions } = await this.#session(params.sessionId).choose(params.configId, params.value)
      return { configOptions }
    })
    on(session.prompt, ({ params }) => this.#session(params.sessionId).prompt(params.prompt))
    app.onNotification(
      session.cancel,
      async ({ params }) => await this.#sessions.get(params.sessionId)?.cancel(),
    )
    return app
  }

  close(): void {
    for (const session of this.#sessions.values()) session.close()
    this.#sessions.clear()
  }

  #initialize({ clientInfo, clientCapabilities }: InitializeRequest): InitializeResponse {
    this.#sender = clientInfo?.name || undefined
    const name = 'Choose a model'
    return {
      // An older client decides whether it takes this one.
      protocolVersion: PROTOCOL_VERSION,
      agentInfo: { name: 'slipway', title: 'Slipway', version: ownPackage.version },
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, embeddedContext: true },
        mcpCapabilities: { http: true, sse: true },
        sessionCapabilities: { list: {}, resume: {}, fork: {}, close: {}, delete: {} },
      },
      authMethods: [
        clientCapabilities?.auth?.terminal === true
          ? {
              type: 'terminal',
              id: 'setup',
              name,
              description: 'Asks for a provider, a model and a key',
              args: ['--setup'],
            }
          : { id: 'setup', name, description: 'Run "slipway acp --setup" in a terminal' },
      ],
    }
  }

  async #model(): Promise<SelectedModel> {
    const { model } = this.#options
    const found = model ?? (await this.#link.call((client) => readSavedModel(client, this.#link.signal)))
    if (found === undefined) throw new RequestError(-32000, noModel)
    return found
  }

  async #new({ cwd, mcpServers }: NewSessionRequest, peer: AgentContext): Promise<NewSessionResponse> {
    if (!isAbsolute(cwd)) throw new RequestError(-32602, `cwd is an absolute path, not ${cwd}`)
    const { link } = this
    const llm = buildLlm(await this.#model())
    const saved = await link.call((client) => readAgentMcpServers(client, link.signal))
    const { isAsking, rules } = this.#options.confirmation
    const body = {
      conversation_id: randomUUID(),
      agent: buildAgent(llm, { ...saved, ...toMcpServers(mcpServers) }),
      workspace: { working_dir: cwd },
      ...buildConfirmationSettings(isAsking),
      ...(rules.length === 0 ? {} : { command_rules: [...rules] }),
    }
    const { id } = await link.call((client) =>
      client.call('createConversation', { body, signal: link.signal }),
    )
    return { sessionId: id, ...(await this.#start(id, peer, { replay: false })) }
  }

  get link(): ServerLink {
    return this.#link
  }

  async #join(sessionId: string, peer: AgentContext, how: { readonly replay: boolean }) {
    return await this.#start(await this.#idOf(sessionId), peer, how)
  }

  async #fork(sessionId: string, peer: AgentContext): Promise<NewSessionResponse> {
    const params = { conversation_id: await this.#idOf(sessionId) }
    const body = { id: randomUUID() }
    const { id } = await this.#link.call((client) => client.call('forkConversation', { params, body }))
    return { sessionId: id, ...(await this.#start(id, peer, { replay: false })) }
  }

  async #start(id: string, peer: AgentContext, how: { readonly replay: boolean }) {
    this.#sessions.get(id)?.close()
    const session = new EditorSession({ id, link: this.#link, peer, sender: this.#sender })
    this.#sessions.set(id, session)
    try {
      return await session.start(how)
    } catch (error) {
      await this.#close(id)
      throw error
    }
  }

  /** The id as the server has it; a RequestError when there is no such conversation. */
  async #idOf(sessionId: string): Promise<string> {
    const { signal } = this.#link
    const params = { conversation_id: sessionId }
    try {
      return (await this.#link.call((client) => client.call('getConversation', { params, signal }))).id
    } catch (error) {
      throw isUnknownSession(error) ? RequestError.sessionNotFound(sessionId) : error
    }
  }

  async #list({ cwd, cursor }: ListSessionsRequest): Promise<ListSessionsResponse> {
    const found: ConversationInfo[] = []
    let page_id = cursor ?? undefined
    for (let pages = 0; pages < maxPages && found.length < pageSize; pages++) {
      const query = { limit: String(pageSize), sort_order: 'UPDATED_AT_DESC' as const, page_id }
      const page = await this.#link.call((client) => client.call('searchConversations', { query }))
      found.push(...page.items.filter(({ workspace }) => cwd == null || workspace.working_dir === cwd))
      page_id = page.next_page_id ?? undefined
      if (page_id === undefined) break
    }
    const sessions = found.map(({ id, title, workspace, updated_at }) => ({
      ...{ sessionId: id, cwd: workspace.working_dir, updatedAt: String(updated_at) },
      ...(title === null ? {} : { title }),
    }))
    return { sessions, ...(page_id === undefined ? {} : { nextCursor: page_id }) }
  }

  async #close(sessionId: string): Promise<void> {
    const session = this.#sessions.get(sessionId)
    this.#sessions.delete(sessionId)
    await session?.cancel()
    session?.close()
  }

  async #delete(sessionId: string): Promise<void> {
    const params = { conversation_id: await this.#idOf(sessionId) }
    await this.#close(sessionId)
    await this.#link.call((client) => client.call('deleteConversation', { params }))
  }

  #session(sessionId: string): EditorSession {
    const session = this.#sessions.get(sessionId)
    if (session === undefined) throw RequestError.sessionNotFound(sessionId)
    return session
  }
}

/** The servers that the editor names, as an agent has them. */
function toMcpServers(servers: readonly McpServer[]): Record<string, McpServerInput> {
  return Object.fromEntries(servers.map((server) => [server.name, toMcpServer(server)]))
}

function toMcpServer(server: McpServer): McpServerInput {
  const named = (list: readonly { name: string; value: string }[]) =>
    Object.fromEntries(list.map(({ name, value }) => [name, value]))
  if ('command' in server) return { command: server.command, args: server.args, env: named(server.env) }
  if (!('url' in server))
    throw new RequestError(-32602, `The MCP server ${server.name} has neither command nor url.`)
  return { url: server.url, transport: server.type, headers: named(server.headers) }
}
