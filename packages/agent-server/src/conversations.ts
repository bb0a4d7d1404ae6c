import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { formatInstant, Problem, redact, type StartConversationRequest } from '@slipway/protocol'
import type { ConversationRecord, EventLog, PagedEvent, Records, Storage } from '@slipway/storage'

/** What a create request says, as far as it is kept: no secret is in it, only the names of those that were given. */
type KeptRequest = Partial<StartConversationRequest> & { readonly secret_names?: readonly string[] }

/** The agent of a conversation that has none: clients fail on null. */
const placeholderAgent = {
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

/** The conversations of this server: their records, seen as clients see them. */
export class Conversations {
  readonly #records: Records
  readonly #log: EventLog
  readonly #directory: string

  constructor(storage: Storage, directory: string) {
    this.#records = storage.conversations
    this.#log = storage.log
    this.#directory = directory
  }

  /** The record of an id in dashed lower case; a Problem `not_found` when there is none. */
  async find(id: string): Promise<ConversationRecord> {
    return await findRecord(this.#records, id)
  }

  /** Creates a conversation, or answers the one that has the id already. */
  async create(request: StartConversationRequest): Promise<{ record: ConversationRecord; created: boolean }> {
    const { conversation_id = randomUUID(), tags = {}, secrets = {}, initial_message: _, ...rest } = request
    const kept = { ...(redact(rest) as object), secret_names: Object.keys(secrets) }
    return await this.#records.create({ id: conversation_id, tags, request: JSON.stringify(kept) })
  }

  /** ConversationInfo of the wire, null members present. */
  async info(record: ConversationRecord, options: { readonly includeSkills?: boolean } = {}) {
    const request: KeptRequest = record.request === null ? {} : JSON.parse(record.request)
    const [leaf, message] = await Promise.all([
      record.head === 0 ? [] : this.#log.read(record.id, record.head - 1, 1),
      this.#log.search(record.id, {
        kind: 'MessageEvent',
        source: 'user',
        limit: 1,
        sort_order: 'TIMESTAMP_DESC',
      }),
    ])
    return {
      id: record.id,
      workspace: { working_dir: this.#directory, ...request.workspace, kind: 'LocalWorkspace' },
      persistence_dir: join(this.#directory, 'conversations', record.id.replaceAll('-', '')),
      max_iterations: request.max_iterations ?? 500,
      stuck_detection: request.stuck_detection ?? true,
      execution_status: record.status,
      confirmation_policy: request.confirmation_policy ?? { kind: 'NeverConfirm' },
      security_analyzer: request.security_analyzer ?? null,
      activated_knowledge_skills: [],
      invoked_skills: [],
      blocked_actions: {},
      blocked_messages: {},
      last_user_message_id: idOf(message.items[0]),
      leaf_event_id: leaf[0]?.id ?? null,
      stats: { usage_to_metrics: {} },
      secret_registry: {
        secret_sources: Object.fromEntries(
          (request.secret_names ?? []).map((name) => [
            name,
            { description: null, value: null, kind: 'StaticSecret' },
          ]),
        ),
      },
      agent_state: {},
      hook_config: request.hook_config ?? null,
      title: record.title,
      metrics: null,
      created_at: formatInstant(record.created_at),
      updated_at: formatInstant(record.updated_at),
      forked_from_conversation_id: null,
      forked_from_event_id: null,
      parent_conversation_id: null,
      sub_conversation_ids: [],
      tags: record.tags,
      current_model_id: null,
      available_models: [],
      supports_runtime_model_switch: false,
      launched_agent_profile: null,
      agent: agentOf(request, options.includeSkills ?? false),
      client_tools: request.client_tools ?? [],
    }
  }

  /** The snapshot that opens an events socket (wire: key `full_state`): what `info` says, nulls left out. */
  async state(record: ConversationRecord): Promise<unknown> {
    const { available_models: _, ...info } = await this.info(record)
    return withoutNulls(info)
  }
}

/** The id of an event of a page, which is only in its text. */
function idOf(event: PagedEvent | undefined): string | null {
  return event === undefined ? null : JSON.parse(event.bytes.toString()).id
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(members.map(([name, member]) => [name, withoutNulls(member)]))
}

/** The record of an id in dashed lower case; a Problem `not_found` when there is none. */
export async function findRecord(records: Records, id: string): Promise<ConversationRecord> {
  const [record] = await records.get([id])
  if (record === undefined) throw missing(id)
  return record
}

export function missing(id: string): Problem {
  return new Problem('not_found', `Conversation not found: ${id}`)
}

function agentOf(request: KeptRequest, includeSkills: boolean): Record<string, unknown> {
  const given = request.agent
  if (given === undefined) return placeholderAgent
  const context = given.agent_context
  const trimmed =
    includeSkills || typeof context !== 'object' || context === null ? context : { ...context, skills: [] }
  return { ...placeholderAgent, ...given, agent_context: trimmed ?? null, kind: 'Agent' }
}
