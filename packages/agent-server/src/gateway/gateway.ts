import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Conversation } from '@slipway/agent'
import {
  type ChatRequest,
  type Llm,
  Problem,
  type StartConversationRequest,
  startConversationRequest,
} from '@slipway/protocol'
import { getConversationRecord } from '../conversations/conversation-info.ts'
import { type CreateConversationDeps, createConversation } from '../conversations/create.ts'
import type { LlmProfiles } from '../profiles/llm-profiles.ts'
import { parsePrompt } from './prompt.ts'
import { GatewayTurn } from './turn.ts'

const modelPrefix = 'openhands_'
/** Tag with the name of the profile that the conversation last used. */
const profileTag = 'gateway'

interface GatewayOptions {
  readonly createDeps: CreateConversationDeps
  readonly llmProfiles: Pick<LlmProfiles, 'list' | 'resolve'>
  /** The policy and analyzer of new conversations. */
  readonly readConfirmation: () => Promise<
    Pick<StartConversationRequest, 'confirmation_policy' | 'security_analyzer'>
  >
  /** Parent of the working directories of new conversations. */
  readonly directory: string
  /** Timeout of a turn; 120 s unless passed (wire 1.22). */
  readonly timeoutMs?: number
}

/** Conversations for programs that know only models and messages. */
export class Gateway {
  readonly #options: GatewayOptions
  /** Conversations with a waiting request. */
  readonly #inUse = new Set<string>()
  readonly #startedAt = Math.floor(Date.now() / 1000)

  constructor(options: GatewayOptions) {
    this.#options = options
  }

  async listModels() {
    const summaries = await this.#options.llmProfiles.list()
    const common = { object: 'model', created: this.#startedAt, owned_by: 'slipway' } as const
    const data = summaries.map(({ name }) => ({ id: modelPrefix + name, ...common }))
    return { object: 'list', data } as const
  }

  /**
   * The continued or new conversation of a request, and its turn: call `complete` or `stream` of it.
   * Problems: `invalid`, `not_found`, and `conflict` while it runs.
   */
  async startTurn(
    request: ChatRequest,
    conversationId: string | undefined,
    signal: AbortSignal,
  ): Promise<{ readonly id: string; readonly turn: GatewayTurn }> {
    const { createDeps, timeoutMs = 120_000 } = this.#options
    const prompt = parsePrompt(request)
    const model = await this.#resolveModel(request.model)
    createDeps.registry.assertRunSlotFree()
    const id = conversationId ?? randomUUID()
    if (this.#inUse.has(id)) throw runningProblem()
    this.#inUse.add(id)
    try {
      const conversation =
        conversationId === undefined
          ? await this.#createConversation(id, model, prompt.system)
          : await this.#continueConversation(conversationId, model)
      const message = conversationId === undefined ? prompt.messageWithHistory : prompt.message
      const { log } = createDeps.storage
      const release = () => void this.#inUse.delete(id)
      return { id, turn: new GatewayTurn(conversation, { log, message, timeoutMs, signal, onEnd: release }) }
    } catch (error) {
      this.#inUse.delete(id)
      throw error
    }
  }

  async #resolveModel(id: string): Promise<{ readonly name: string; readonly llm: Llm }> {
    const name = id.startsWith(modelPrefix) ? id.slice(modelPrefix.length) : ''
    const llm = await this.#options.llmProfiles.resolve(name)
    if (llm === undefined) throw new Problem('not_found', 'There is no such model')
    return { name, llm }
  }

  async #createConversation(
    id: string,
    { name, llm }: { readonly name: string; readonly llm: Llm },
    system: string | undefined,
  ): Promise<Conversation> {
    const { createDeps, directory } = this.#options
    const request = startConversationRequest.parse({
      ...(await this.#options.readConfirmation()),
      conversation_id: id,
      agent_settings: { llm },
      workspace: { working_dir: join(directory, id) },
      tags: { [profileTag]: name },
      ...(system === undefined ? {} : { agent_launch_additions: { system_message_suffix_append: system } }),
    })
    await createConversation(createDeps, request)
    return await createDeps.registry.get(id)
  }

  /** A conversation that the gateway created switches to the requested model; any other one keeps its own. */
  async #continueConversation(
    id: string,
    { name, llm }: { readonly name: string; readonly llm: Llm },
  ): Promise<Conversation> {
    const { storage, registry } = this.#options.createDeps
    const { tags } = await getConversationRecord(storage.conversations, id)
    const conversation = await registry.get(id)
    if (conversation.isRunning) throw runningProblem()
    if (tags[profileTag] !== undefined && tags[profileTag] !== name) {
      await conversation.switchModel(llm)
      await storage.conversations.patch(id, { tags: { ...tags, [profileTag]: name } })
    }
    return conversation
  }
}

function runningProblem(): Problem {
  return new Problem('conflict', 'The conversation is running. Ask again when it rests.')
}
