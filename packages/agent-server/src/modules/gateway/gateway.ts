import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Conversation } from '@slipway/agent'
import {
  type ChatRequest,
  type Llm,
  Problem,
  profileName,
  type ResponsesRequest,
  type StartConversationRequest,
  startConversationRequest,
} from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import type { Clock } from '@slipway/shared/time'
import { type CreateConversationDeps, createConversation } from '../../core/conversations/lifecycle/create.ts'
import { withObservabilityHeaders } from '../../core/conversations/lifecycle/observability.ts'
import type { RunAdmission } from '../../core/conversations/run-admission.ts'
import { type GatewayPrompt, parseChatPrompt, parseResponsesPrompt } from './prompt.ts'
import { GatewayTurn } from './turn.ts'

const modelPrefix = 'openhands_'
/** Tag with the name of the profile that the conversation began with. */
const profileTag = 'gateway'

interface GatewayOptions {
  readonly createDeps: CreateConversationDeps
  /** The policy and analyzer of new conversations. */
  readonly readConfirmation: () => Promise<
    Pick<StartConversationRequest, 'confirmation_policy' | 'security_analyzer'>
  >
  /** Parent of the working directories of new conversations. */
  readonly directory: string
  /** Timeout of a turn; 120 s unless passed (wire 1.22). */
  readonly timeoutMs?: number
  readonly clock: Clock
}

/** A header of the request by its name. */
type ReadHeader = (name: string) => string | undefined

interface TurnRequest {
  readonly modelId: string
  readonly prompt: GatewayPrompt
  readonly conversationId: string | undefined
  /** Says what a new conversation stores about its traces. */
  readonly header: ReadHeader | undefined
}

/** Conversations for programs that know only models and messages. */
export class Gateway {
  readonly #options: GatewayOptions
  /** Conversations with a waiting request. */
  readonly #inUse = new Set<string>()

  constructor(options: GatewayOptions) {
    this.#options = options
  }

  async listModels() {
    const summaries = await this.#options.createDeps.parts.models.list()
    const common = { object: 'model', created: 0, owned_by: 'openhands' } as const
    const data = summaries.map(({ name }) => ({ id: modelPrefix + name, ...common }))
    return { object: 'list', data } as const
  }

  /**
   * The continued or new conversation of a request, and its turn: call `complete` or `stream` of it. An id
   * that is not known becomes that of a new conversation; a continued one keeps its model. Problems:
   * `bad_request`, `not_found`, `limit` and, while it runs, `conflict`.
   */
  async startTurn(
    request: ChatRequest,
    conversationId: string | undefined,
    signal: AbortSignal,
    header?: ReadHeader,
  ) {
    const prompt = parseChatPrompt(request)
    return await this.#startTurn({ modelId: request.model, prompt, conversationId, header }, signal)
  }

  /** Like `startTurn`, always with a new conversation. */
  async startResponse(request: ResponsesRequest, signal: AbortSignal, header?: ReadHeader) {
    const prompt = parseResponsesPrompt(request)
    return await this.#startTurn(
      { modelId: request.model, prompt, conversationId: undefined, header },
      signal,
    )
  }

  async #startTurn(
    { modelId, prompt, conversationId, header = () => undefined }: TurnRequest,
    signal: AbortSignal,
  ): Promise<{ readonly id: string; readonly turn: GatewayTurn }> {
    const { createDeps, clock, timeoutMs = 120_000 } = this.#options
    const { storage, registry } = createDeps
    const model = await this.#resolveModel(modelId)
    const id = conversationId ?? randomUUID()
    if (this.#inUse.has(id)) throw runningProblem()
    const admission = registry.admitRun(true)
    this.#inUse.add(id)
    try {
      const isKnown = conversationId !== undefined && (await storage.conversations.get([id]))[0] !== undefined
      const conversation = isKnown
        ? await registry.get(id)
        : await this.#createConversation(id, model, { system: prompt.system, header, admission })
      if (conversation.isRunning) throw runningProblem()
      const message = isKnown ? prompt.message : prompt.messageWithHistory
      const release = () => {
        this.#inUse.delete(id)
        admission[Symbol.dispose]()
      }
      const options = { log: storage.log, message, timeoutMs, clock, signal, admission, onEnd: release }
      return { id, turn: new GatewayTurn(conversation, options) }
    } catch (error) {
      this.#inUse.delete(id)
      admission[Symbol.dispose]()
      throw error
    }
  }

  async #resolveModel(id: string): Promise<{ readonly name: string; readonly llm: Llm }> {
    const name = id.startsWith(modelPrefix) ? id.slice(modelPrefix.length) : ''
    if (name === '')
      throw new Problem('not_found', `Unknown OpenHands model '${firstChars(id, 100)}'. Use GET /v1/models.`)
    if (!profileName.safeParse(name).success)
      throw new Problem('bad_request', `Invalid profile name: '${firstChars(name, 100)}'`)
    const llm = await this.#options.createDeps.parts.models.resolve(name)
    if (llm === undefined) throw new Problem('not_found', `Profile '${name}' not found`)
    return { name, llm }
  }

  async #createConversation(
    id: string,
    { name, llm }: { readonly name: string; readonly llm: Llm },
    options: {
      readonly system: string | undefined
      readonly header: ReadHeader
      readonly admission: RunAdmission
    },
  ): Promise<Conversation> {
    const { createDeps, directory } = this.#options
    const { system, header, admission } = options
    const request = startConversationRequest.parse({
      ...(await this.#options.readConfirmation()),
      conversation_id: id,
      agent_settings: {
        llm,
        ...(system === undefined ? {} : { agent_context: { system_message_suffix: system } }),
      },
      workspace: { working_dir: join(directory, id) },
      tags: { [profileTag]: name },
    })
    const observed = withObservabilityHeaders(request, header)
    await createConversation(createDeps, observed, createDeps.wire, admission)
    return await createDeps.registry.get(id)
  }
}

function runningProblem(): Problem {
  return new Problem('conflict', 'The conversation is running. Ask again when it rests.')
}
