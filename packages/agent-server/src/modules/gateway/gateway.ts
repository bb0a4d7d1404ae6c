import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Conversation } from '@slipway/agent'
import {
  type Llm,
  Problem,
  profileName,
  type StartConversationRequest,
  startConversationRequest,
} from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import type { Clock } from '@slipway/shared/time'
import { type CreateConversationDeps, createConversation } from '../../core/conversations/lifecycle/create.ts'
import { forkConversation } from '../../core/conversations/lifecycle/fork.ts'
import { withObservabilityHeaders } from '../../core/conversations/lifecycle/observability.ts'
import type { RunAdmission } from '../../core/conversations/run-admission.ts'
import { findSource, type Source, turnSettings } from './continuation.ts'
import type { GatewayRequest } from './request.ts'
import { countTokens, type ResponseFacts, responseKey } from './response-log.ts'
import { GatewayTurn } from './turn.ts'

const modelPrefix = 'openhands_'
/** Tag with the name of the profile that the conversation began with. */
const profileTag = 'gateway'
/** Tag of conversations that are removed at the end of their request: with their id, which no copy has. */
const unstoredTag = 'unstored'
const titleLength = 50
const noModelText =
  'This server has no LLM profile, and so no model. Make one: run `slipway` in a terminal, which asks for a model and saves it, or POST /api/profiles/{name} with {"llm": {"model": "provider/name", "api_key": "..."}}. GET /v1/models lists it then.'

interface GatewayOptions {
  readonly createDeps: CreateConversationDeps
  /** The policy and analyzer of new conversations. */
  readonly readConfirmation: () => Promise<
    Pick<StartConversationRequest, 'confirmation_policy' | 'security_analyzer'>
  >
  /** Parent of the working directories of new conversations. */
  readonly directory: string
  readonly removeConversation: (id: string) => Promise<unknown>
  /** Timeout of a turn; 120 s unless passed (wire 1.22). */
  readonly timeoutMs?: number
  readonly clock: Clock
}

/** A header of the request by its name. */
type ReadHeader = (name: string) => string | undefined

interface TurnOptions {
  /** The conversation that a header names. */
  readonly conversationId?: string | undefined
  readonly signal: AbortSignal
  /** Says what a new conversation stores about its traces. */
  readonly header?: ReadHeader
  /** Of a response: what its resource repeats of the request. */
  readonly response?: Pick<ResponseFacts, 'members' | 'input'>
}

/** A turn that is about to begin. */
export interface StartedTurn {
  /** Of its conversation. */
  readonly id: string
  /** The id of the event with which its response begins. */
  readonly event: string
  readonly turn: GatewayTurn
  /** Removes what is not stored; call it when the turn is over, whatever became of it. */
  finish(): Promise<void>
}

/** The conversation of a request, before its message. */
interface Place {
  readonly conversation: Conversation
  /** It has what was said before. */
  readonly isContinued: boolean
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
    const data = summaries.map(({ name }) => describeModel(modelPrefix + name))
    return { object: 'list', data } as const
  }

  /** Problems: `not_found`, `bad_request`. */
  async getModel(id: string) {
    await this.#resolveModel(id)
    return describeModel(id)
  }

  /** Removes what requests have left that were not to be stored, and whose server was killed. */
  async removeLeftovers(): Promise<void> {
    const { storage } = this.#options.createDeps
    const query = { limit: 100, sort_order: 'CREATED_AT', tags: [{ name: unstoredTag }] } as const
    for (let isMore = true; isMore; ) {
      const { items } = await storage.conversations.search(query)
      let removed = 0
      for (const { id, tags } of items) {
        if (tags[unstoredTag] !== id) continue
        // It may be in use on another server.
        if ((await storage.leases?.acquire(id))?.isOwn === false) continue
        await this.#remove(id)
        removed++
      }
      isMore = items.length === query.limit && removed > 0
    }
  }

  /**
   * The continued or new conversation of a request, and its turn: call `complete` or `stream` of it. An id
   * that is not known becomes that of a new conversation. What was continued already is continued in a copy.
   * Problems: `bad_request`, `not_found`, `limit` and, while it runs, `conflict`.
   */
  async startTurn(request: GatewayRequest, options: TurnOptions): Promise<StartedTurn> {
    const { createDeps, clock, timeoutMs = 120_000 } = this.#options
    const { storage, registry } = createDeps
    const model = await this.#resolveModel(request.model)
    const source = await this.#findSource(request, options.conversationId)
    const isFork = source !== undefined && this.#needsFork(source, request, options)
    const id = isFork ? randomUUID() : (source?.record.id ?? options.conversationId ?? randomUUID())
    if (this.#inUse.has(id)) throw runningProblem()
    const admission = registry.admitRun(true)
    this.#inUse.add(id)
    const release = () => {
      this.#inUse.delete(id)
      admission[Symbol.dispose]()
    }
    try {
      const opening = { id, model, source, isFork, header: options.header, admission }
      const { conversation, isContinued } = await this.#openConversation(request, opening)
      if (conversation.isRunning) throw runningProblem()
      await this.#configure(conversation, request, { ...opening, isContinued })
      const event = randomUUID()
      const { prompt } = request
      if (options.response !== undefined) {
        const previous = source?.response?.facts.standing
        const facts: ResponseFacts = {
          ...options.response,
          used: countTokens(conversation.stats),
          standing: joinTexts(previous, prompt.standing),
          isStructured: request.options.responseSchema !== undefined,
        }
        await conversation.record(responseKey, facts, event)
      }
      const { stop, responseSchema } = request.options
      const turn = new GatewayTurn(conversation, {
        ...{ storage, stop, timeoutMs, clock, signal: options.signal, admission },
        message: isContinued ? prompt.message : prompt.messageWithHistory,
        isWhole: stop.length > 0 || responseSchema !== undefined,
        onEnd: release,
      })
      const finish = async () => {
        if (!request.isStored) await this.#remove(id)
      }
      return { id, event, turn, finish }
    } catch (error) {
      release()
      if (!request.isStored && id !== options.conversationId) await this.#remove(id)
      throw error
    }
  }

  async #findSource(
    request: GatewayRequest,
    conversationId: string | undefined,
  ): Promise<Source | undefined> {
    const { storage } = this.#options.createDeps
    if (conversationId === undefined) return await findSource(storage, request)
    const [record] = await storage.conversations.get([conversationId])
    return record && { record, end: '', isLast: true }
  }

  #needsFork(
    { record, isLast }: Source,
    { isStored }: GatewayRequest,
    { conversationId }: TurnOptions,
  ): boolean {
    return !isStored || (conversationId === undefined && (!isLast || this.#inUse.has(record.id)))
  }

  async #resolveModel(id: string): Promise<{ readonly name: string; readonly llm: Llm }> {
    const { models } = this.#options.createDeps.parts
    const name = id.startsWith(modelPrefix) ? id.slice(modelPrefix.length) : ''
    const isValid = profileName.safeParse(name).success
    const llm = isValid ? await models.resolve(name) : undefined
    if (llm !== undefined) return { name, llm }
    if (name !== '' && !isValid)
      throw new Problem('bad_request', `Invalid profile name: '${firstChars(name, 100)}'`)
    if ((await models.list()).length === 0) throw new Problem('not_found', noModelText)
    throw new Problem(
      'not_found',
      name === ''
        ? `Unknown OpenHands model '${firstChars(id, 100)}'. Use GET /v1/models.`
        : `Profile '${name}' not found`,
    )
  }

  async #openConversation(
    request: GatewayRequest,
    options: Omit<CreateOptions, 'system'> & {
      readonly source: Source | undefined
      readonly isFork: boolean
    },
  ): Promise<Place> {
    const { createDeps } = this.#options
    const { id, source, isFork } = options
    const tags = { [profileTag]: options.model.name, ...(request.isStored ? {} : { [unstoredTag]: id }) }
    let { record } = source ?? { record: undefined }
    if (record !== undefined && source !== undefined && isFork)
      record = await forkConversation(createDeps, record, {
        ...{ id, reset_metrics: true, from_event_id: source.end || undefined },
        ...{ tags: { ...record.tags, ...tags }, title: record.title ?? undefined },
      })
    // An imported one has no agent yet.
    if (record === undefined || record.request === null)
      return {
        conversation: await this.#createConversation({
          ...options,
          tags,
          title: titleOf(request),
          system: request.prompt.system,
        }),
        isContinued: record !== undefined,
      }
    return { conversation: await createDeps.registry.get(id), isContinued: true }
  }

  async #createConversation({
    id,
    model,
    tags,
    title,
    system,
    ...options
  }: CreateOptions & {
    readonly tags: Readonly<Record<string, string>>
    readonly title: string
  }): Promise<Conversation> {
    const { createDeps, directory } = this.#options
    const { header = () => undefined, admission } = options
    const request = startConversationRequest.parse({
      ...(await this.#options.readConfirmation()),
      conversation_id: id,
      agent_settings: {
        llm: model.llm,
        ...(system === undefined ? {} : { agent_context: { system_message_suffix: system } }),
      },
      workspace: { working_dir: join(directory, id) },
      ...{ tags, title, autotitle: false },
    })
    const observed = withObservabilityHeaders(request, header)
    await createConversation(createDeps, observed, createDeps.wire, admission)
    return await createDeps.registry.get(id)
  }

  async #configure(
    conversation: Conversation,
    request: GatewayRequest,
    {
      model,
      source,
      isFork,
      isContinued,
    }: {
      readonly model: { readonly name: string; readonly llm: Llm }
      readonly source: Source | undefined
      readonly isFork: boolean
      readonly isContinued: boolean
    },
  ): Promise<void> {
    const { prompt } = request
    const previous = source?.response?.facts
    const present = conversation.settings.door?.profile ?? source?.record.tags[profileTag]
    const isOtherModel = previous !== undefined && present !== model.name
    const settings = turnSettings(conversation, request, {
      model: isOtherModel ? model : undefined,
      isCopy: isFork,
      suffix:
        previous === undefined || !isContinued
          ? undefined
          : { text: joinTexts(prompt.instructions, previous.standing, prompt.standing) },
    })
    if (settings !== undefined) await conversation.configure(settings)
  }

  async #remove(id: string): Promise<void> {
    await this.#options.removeConversation(id)
    await rm(join(this.#options.directory, id), { recursive: true, force: true })
  }
}

interface CreateOptions {
  readonly id: string
  readonly model: { readonly name: string; readonly llm: Llm }
  readonly header: ReadHeader | undefined
  readonly admission: RunAdmission
  readonly system: string | undefined
}

function describeModel(id: string) {
  return { id, object: 'model', created: 0, owned_by: 'openhands' } as const
}

function joinTexts(...texts: readonly (string | undefined)[]): string | undefined {
  return texts.filter(Boolean).join('\n\n') || undefined
}

/** The beginning of the first message. */
function titleOf({ prompt }: GatewayRequest): string {
  const text = prompt.message.map((part) => (part.type === 'text' ? part.text : '')).join(' ')
  return firstChars(text.replace(/\s+/g, ' ').trim(), titleLength)
}

function runningProblem(): Problem {
  return new Problem('conflict', 'The conversation is running. Ask again when it rests.')
}
