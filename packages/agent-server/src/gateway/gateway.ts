import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Conversation } from '@slipway/agent'
import { type ChatRequest, type Llm, Problem, startConversationRequest } from '@slipway/protocol'
import { findRecord } from '../conversations/conversation-info.ts'
import { type CreateParts, createConversation } from '../conversations/create.ts'
import type { Profiles } from '../profiles/llm-profiles.ts'
import { promptOf } from './prompt.ts'
import { GatewayTurn } from './turn.ts'

const prefix = 'openhands_'
/** The tag by which a conversation tells the profile that it was begun or gone on with. */
const profileTag = 'gateway'

interface Options {
  readonly create: CreateParts
  readonly profiles: Pick<Profiles, 'list' | 'usable'>
  /** Each conversation that begins here works in a directory of its own below it. */
  readonly directory: string
  /** How long an answer is waited for; 120 s unless given (wire 1.22). */
  readonly timeoutMs?: number
}

/** Conversations for programs that know models and messages, and no agents. */
export class Gateway {
  readonly #options: Options
  /** Conversations that somebody waits for here. */
  readonly #busy = new Set<string>()
  readonly #startedAt = Math.floor(Date.now() / 1000)

  constructor(options: Options) {
    this.#options = options
  }

  async models() {
    const profiles = await this.#options.profiles.list()
    const data = profiles.map(({ name }) => {
      return { id: prefix + name, object: 'model', created: this.#startedAt, owned_by: 'slipway' } as const
    })
    return { object: 'list', data } as const
  }

  /**
   * The conversation that a request goes on with, or a new one, and the turn that answers it, which must be asked for its answer.
   * Problems: `invalid`, `not_found`, and `conflict` while it runs.
   */
  async turn(
    request: ChatRequest,
    given: string | undefined,
    signal: AbortSignal,
  ): Promise<{ readonly id: string; readonly turn: GatewayTurn }> {
    const prompt = promptOf(request)
    const model = await this.#model(request.model)
    const id = given ?? randomUUID()
    if (this.#busy.has(id)) throw running()
    this.#busy.add(id)
    try {
      const conversation =
        given === undefined ? await this.#begin(id, model, prompt.system) : await this.#find(given, model)
      const message = given === undefined ? prompt.whole : prompt.message
      const { create, timeoutMs = 120_000 } = this.#options
      const { log } = create.storage
      const over = () => void this.#busy.delete(id)
      return { id, turn: new GatewayTurn(conversation, { log, message, timeoutMs, signal, over }) }
    } catch (error) {
      this.#busy.delete(id)
      throw error
    }
  }

  async #model(id: string): Promise<{ readonly name: string; readonly llm: Llm }> {
    const name = id.startsWith(prefix) ? id.slice(prefix.length) : ''
    const llm = await this.#options.profiles.usable(name)
    if (llm === undefined) throw new Problem('not_found', 'There is no such model')
    return { name, llm }
  }

  async #begin(
    id: string,
    { name, llm }: { readonly name: string; readonly llm: Llm },
    system: string | undefined,
  ): Promise<Conversation> {
    const { create, directory } = this.#options
    const request = startConversationRequest.parse({
      conversation_id: id,
      agent_settings: { llm },
      workspace: { working_dir: join(directory, id) },
      tags: { [profileTag]: name },
      ...(system === undefined ? {} : { agent_launch_additions: { system_message_suffix_append: system } }),
    })
    await createConversation(create, request)
    return await create.agents.get(id)
  }

  /** A conversation that was begun here goes on with the model that is asked for; any other one with its own. */
  async #find(
    id: string,
    { name, llm }: { readonly name: string; readonly llm: Llm },
  ): Promise<Conversation> {
    const { storage, agents } = this.#options.create
    const { tags } = await findRecord(storage.conversations, id)
    const conversation = await agents.get(id)
    if (conversation.isRunning) throw running()
    if (tags[profileTag] !== undefined && tags[profileTag] !== name) {
      await conversation.switchModel(llm)
      await storage.conversations.patch(id, { tags: { ...tags, [profileTag]: name } })
    }
    return conversation
  }
}

function running(): Problem {
  return new Problem('conflict', 'The conversation is running. Ask again when it rests.')
}
