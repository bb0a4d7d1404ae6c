import { join } from 'node:path'
import {
  type Conversation,
  combineMetrics,
  conversationFolder,
  findNewestMessage,
  readBranch,
  UsageStats,
} from '@slipway/agent'
import {
  type Condenser,
  type ConversationLimits,
  formatInstant,
  type HookConfig,
  isAcpAgent,
  type LimitScope,
  Problem,
} from '@slipway/protocol'
import { LruMap } from '@slipway/shared/collections'
import { definedMembers, mapMembers } from '@slipway/shared/json'
import { redactedText } from '@slipway/shared/redaction'
import { rm } from '@slipway/shared/tool-files'
import type { ConversationRecord, ConversationRecords, PagedEvent, Storage } from '@slipway/storage'
import { InfoBytesCache, liveKeyOf } from './info-bytes-cache.ts'
import { readStoredRequest, type StoredRequest, withoutNulls } from './stored-request.ts'

/** The agent of a conversation without one: clients fail on null. */
const noAgentPlaceholder = {
  llm: { model: 'none', api_key: null, usage_id: 'agent' },
  tools: [],
  mcp_config: {},
  include_default_tools: ['FinishTool', 'ThinkTool'],
  agent_context: null,
  condenser: null,
  critic: null,
  tool_concurrency_limit: 1,
  kind: 'Agent',
}

/** Conversations whose members are kept as they are shown: more than the largest page has. */
const maxKept = 1_000
/** Of the texts of their requests: a client's tools may make one large. */
const maxKeptCharacters = 4_000_000

/** What a stored request says of a conversation, as it is shown. Not to be changed: answers share it. */
interface DisplayedRequest {
  readonly request: StoredRequest
  /** Without skills. */
  readonly agent: Record<string, unknown>
  readonly secrets: object
}

/** What the log says of a conversation, as long as its record is of this version. */
interface LogFacts {
  readonly version: string
  readonly leafEventId: string | null
  readonly lastUserMessageId: string | null
}

interface InfoOptions {
  /** Shown as the skills of the agent's context. */
  readonly skills?: unknown
  /** Those of plugins, which follow the conversation's own. */
  readonly pluginHooks?: HookConfig | undefined
  readonly loaded?: Conversation | undefined
}

/** Where conversations run: in this server, so always there. */
export const localRuntime = { runtime_status: 'available', can_resume: true, runtime_error: null } as const

/** Conversations as clients see them. */
export class ConversationInfoReader {
  readonly #storage: Storage
  readonly #directory: string
  /** By the text of the request, which many conversations have in common. */
  readonly #requests = new LruMap<string, DisplayedRequest>({
    max: maxKept,
    maxSize: maxKeptCharacters,
    sizeCalculation: (_, text) => text.length + 1,
  })
  readonly #facts = new LruMap<string, LogFacts>({ max: maxKept })
  readonly #bytes = new InfoBytesCache()

  constructor(storage: Storage, directory: string) {
    this.#storage = storage
    this.#directory = directory
  }

  async getRecord(id: string): Promise<ConversationRecord> {
    return await getConversationRecord(this.#storage.conversations, id)
  }

  /** ConversationInfo of the wire, null members included. Some members need `loaded`. */
  async readInfo(
    record: ConversationRecord,
    options: InfoOptions & {
      /** Looked up unless they are known. */
      readonly children?: readonly string[] | undefined
    } = {},
  ) {
    const [children, facts] = await Promise.all([
      options.children ?? this.#storage.conversations.listChildren([record.id]).then((lists) => lists.flat()),
      this.#readFacts(record),
    ])
    return this.#toInfo(record, { ...options, children, facts })
  }

  /** The same as JSON; the bytes are shared and not to be changed. At once where nothing has to be read. */
  readInfoBytes(
    record: ConversationRecord,
    options: InfoOptions & { readonly children: readonly string[] },
  ): Buffer | Promise<Buffer> {
    const { loaded, children } = options
    const kept = isKeepable(options) ? this.#bytes.get(record, liveKeyOf(loaded, children)) : undefined
    return kept ?? this.#makeInfoBytes(record, options)
  }

  async #makeInfoBytes(
    record: ConversationRecord,
    options: InfoOptions & { readonly children: readonly string[] },
  ): Promise<Buffer> {
    const facts = await this.#readFacts(record)
    // A conversation that runs changes while it is awaited: its key is that of the same moment.
    const liveKey = liveKeyOf(options.loaded, options.children)
    const info = this.#toInfo(record, { ...options, facts })
    const bytes = Buffer.from(JSON.stringify(info))
    // Usage that a limit counts changes with the time.
    if (isKeepable(options) && !('limits' in info)) this.#bytes.set(record, liveKey, bytes)
    return bytes
  }

  #toInfo(
    record: ConversationRecord,
    options: InfoOptions & { readonly children: readonly string[]; readonly facts: LogFacts },
  ) {
    const { children, facts } = options
    const { leafEventId, lastUserMessageId } = facts
    const state = options.loaded?.state
    const stats = options.loaded?.stats ?? new UsageStats(record.stats)
    const { request, agent, secrets } = this.#displayRequest(record)
    const { agent_state: agentState = {} } = request
    return {
      id: record.id,
      workspace: { working_dir: this.#directory, ...request.workspace, kind: 'LocalWorkspace' },
      persistence_dir: this.#filesDirectory(record.id),
      max_iterations: request.max_iterations ?? 500,
      stuck_detection: request.stuck_detection ?? true,
      execution_status: record.status,
      confirmation_policy: request.confirmation_policy ?? { kind: 'NeverConfirm' },
      security_analyzer: request.security_analyzer ?? null,
      activated_knowledge_skills: [...(state?.activatedSkills ?? [])],
      invoked_skills: [...(state?.invokedSkills ?? [])],
      blocked_actions: {},
      blocked_messages: Object.fromEntries(state?.blockedMessages ?? []),
      last_user_message_id: lastUserMessageId,
      leaf_event_id: leafEventId,
      stats: stats.toJSON(),
      secret_registry: secrets,
      agent_state: { ...agentState, ...(options.loaded?.isRunQueued ? { run_queued: true } : {}) },
      hook_config: joinHooks(request.hook_config, options.pluginHooks) ?? null,
      title: record.title,
      metrics: combineMetrics(stats),
      created_at: formatInstant(record.created_at),
      updated_at: formatInstant(record.updated_at),
      forked_from_conversation_id: request.forked_from_conversation_id ?? null,
      forked_from_event_id: request.forked_from_event_id ?? null,
      parent_conversation_id: request.parent_conversation_id ?? null,
      sub_conversation_ids: children,
      tags: record.tags,
      current_model_id: agentState.acp_current_model_id ?? acpModelOf(request) ?? null,
      available_models: agentState.acp_available_models ?? [],
      supports_runtime_model_switch: agentState.acp_supports_runtime_model_switch ?? false,
      launched_agent_profile: request.launched_agent_profile ?? null,
      agent: hasSkills(options.skills) ? displayedAgent(request, options.skills) : agent,
      client_tools: request.client_tools ?? [],
      ...(request.command_rules && { command_rules: request.command_rules }),
      ...(request.command_sandbox && { command_sandbox: request.command_sandbox }),
      ...(request.plan_mode !== undefined && { plan_mode: request.plan_mode }),
      ...(request.limits && { limits: limitsInfo(request.limits, stats) }),
      runtime_info: localRuntime,
    }
  }

  /** The snapshot that opens an events socket (wire: key `full_state`): what `info` says, nulls left out. */
  async readState(record: ConversationRecord, loaded?: Conversation): Promise<unknown> {
    const { available_models: _, ...info } = await this.readInfo(record, { loaded })
    const stats = (loaded?.stats ?? new UsageStats(record.stats)).snapshot()
    return withoutNulls({ ...info, stats, head_is_empty: info.leaf_event_id === null })
  }

  /** The same with stars where the agent's model has a key. */
  async readArchivedState(record: ConversationRecord): Promise<unknown> {
    const shown = (await this.readState(record)) as { agent?: { llm?: object }; agent_state?: object }
    // A session continues where the external agent has its files.
    const {
      acp_session_id: _,
      acp_session_cwd: __,
      ...agent_state
    }: Record<string, unknown> = {
      ...shown.agent_state,
    }
    const state = { ...shown, agent_state }
    const { agent } = readStoredRequest(record)
    if (agent === undefined || agent.llm.api_key === undefined) return state
    return { ...state, agent: { ...state.agent, llm: { ...state.agent?.llm, api_key: redactedText } } }
  }

  /** Removes the files of a conversation's tools: outputs, lists, recordings. Its workspace stays. */
  async removeFiles(id: string): Promise<void> {
    await rm(this.#filesDirectory(id), { recursive: true, force: true })
  }

  async #readFacts({ id, head, created_at, updated_at }: ConversationRecord): Promise<LogFacts> {
    // A log that grows changes `updated_at`; another one of the same id has another `created_at`.
    const version = `${head} ${created_at} ${updated_at}`
    const known = this.#facts.get(id)
    if (known?.version === version) return known
    const { log } = this.#storage
    const branch = await readBranch(log, id)
    const leafAt = branch.leafAt(head)
    const [[leaf], message] = await Promise.all([
      leafAt === 0 ? [] : log.read(id, leafAt - 1, 1),
      findNewestMessage(log, { conversation: id, branch, source: 'user' }),
    ])
    const facts = { version, leafEventId: leaf?.id ?? null, lastUserMessageId: eventId(message) }
    this.#facts.set(id, facts)
    return facts
  }

  #displayRequest(record: ConversationRecord): DisplayedRequest {
    const text = record.request ?? ''
    const known = this.#requests.get(text)
    if (known !== undefined) return known
    const request = readStoredRequest(record)
    const displayed = { request, agent: displayedAgent(request, []), secrets: displayedSecrets(request) }
    this.#requests.set(text, displayed)
    return displayed
  }

  #filesDirectory(id: string): string {
    return conversationFolder(join(this.#directory, 'conversations'), id)
  }
}

function joinHooks(own: HookConfig | undefined, added: HookConfig | undefined): HookConfig | undefined {
  if (own === undefined || added === undefined) return own ?? added
  const events = Object.keys(added) as (keyof HookConfig)[]
  return { ...own, ...Object.fromEntries(events.map((name) => [name, [...own[name], ...added[name]]])) }
}

function limitsInfo(limits: ConversationLimits, stats: UsageStats) {
  const scope = (name: LimitScope) => ({ used: stats.used(name), limits: definedMembers(limits[name] ?? {}) })
  return { run: scope('run'), conversation: scope('conversation') }
}

/** The names of a conversation's secrets and where their values come from, without a value. */
export function displayedSecrets({ secret_sources = {} }: StoredRequest): object {
  const displayed = Object.entries(secret_sources).map(([name, source]) => [
    name,
    source.kind === 'StaticSecret' ? { ...source, value: redactedText } : source,
  ])
  return { secret_sources: Object.fromEntries(displayed) }
}

/** The id of an event of a page, which is only in its text. */
function eventId(event: PagedEvent | undefined): string | null {
  return event === undefined ? null : JSON.parse(event.bytes.toString()).id
}

export async function getConversationRecord(
  records: ConversationRecords,
  id: string,
): Promise<ConversationRecord> {
  const [record] = await records.get([id])
  if (record === undefined) throw conversationNotFound(id)
  return record
}

export function conversationNotFound(id: string): Problem {
  return new Problem('not_found', `Conversation not found: ${id}`)
}

/** The same with the text of a Problem `not_found` that programs compare on some routes. */
export async function withNotFoundText<T>(work: Promise<T>, detail: string): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof Problem && error.code === 'not_found') throw new Problem('not_found', detail)
    throw error
  }
}

function displayedAgent({ agent }: StoredRequest, skills: unknown): Record<string, unknown> {
  if (agent === undefined) return noAgentPlaceholder
  const { llm, agent_context: context, condenser = null, critic = null, mcp_config = {}, ...rest } = agent
  const displayedLlm = { ...llm, api_key: null }
  const displayed = {
    ...noAgentPlaceholder,
    ...rest,
    llm: displayedLlm,
    mcp_config,
    condenser: displayedCondenser(condenser, displayedLlm),
    critic,
    agent_context: context || hasSkills(skills) ? { ...context, skills } : null,
    kind: agent.kind ?? 'Agent',
  }
  return redactNullMembers(displayed) as Record<string, unknown> // a copy of it
}

function acpModelOf({ agent }: StoredRequest): string | undefined {
  return agent !== undefined && isAcpAgent(agent) ? agent.acp_model : undefined
}

/** Skills and hooks are read from files that change without a notice. */
function isKeepable({ skills, pluginHooks }: InfoOptions): boolean {
  return !hasSkills(skills) && pluginHooks === undefined
}

function hasSkills(skills: unknown): boolean {
  return Array.isArray(skills) && skills.length > 0
}

/** A condenser that summarizes with the agent's own model shows that model: published clients require one. */
function displayedCondenser(condenser: Condenser | null, llm: object): unknown {
  if (condenser?.kind === 'PipelineCondenser')
    return { ...condenser, condensers: condenser.condensers.map((one) => displayedCondenser(one, llm)) }
  if (condenser?.kind !== 'LLMSummarizingCondenser' || condenser.llm !== undefined) return condenser
  return { ...condenser, llm: { ...llm, usage_id: 'condenser' } }
}

/** Maps of texts stay maps of texts: clients that read them strictly refuse null there. */
function redactNullMembers(value: unknown, isSection = false): unknown {
  if (value === null) return isSection ? redactedText : null
  const isMap = (name: string | number) => /^(env|(extra_)?headers)$/.test(String(name))
  return mapMembers(value, (member, name) =>
    redactNullMembers(member, !Array.isArray(value) && (isSection || (isMap(name) && member !== null))),
  )
}
