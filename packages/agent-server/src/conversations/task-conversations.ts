import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { Child, Children, Conversation, KeptTask, Settings } from '@slipway/agent'
import { Problem } from '@slipway/protocol'
import type { ConversationRecord, Storage } from '@slipway/storage'
import { missing } from './conversation-info.ts'
import type { KeptRequest, Origin } from './stored-request.ts'

/** Tasks of tasks of tasks: deeper than this nobody means it. */
const maxDepth = 4
const page = 100
const numbered = /^task_(\d{8,15})$/
const inEvents = /"task_id":"(task_\d{8,15})"/g

/** What is kept of a task with its conversation. */
export interface TaskOrigin extends KeptTask {
  /** 1 for a task of a conversation that is none itself. */
  readonly depth: number
}

/** Who opens conversations, and seals what is kept of them. */
interface Opener {
  seal(settings: Settings, origin: Origin): { readonly request: string; readonly sealed: Buffer }
  get(id: string): Promise<Conversation>
}

/**
 * The conversations that do the tasks of others. Which task a conversation does is kept in its record, so it is there for as
 * long as the conversation, whatever was deleted or copied around it.
 */
export class TaskConversations implements Children {
  readonly #storage: Storage
  readonly #agents: Opener

  constructor(storage: Storage, agents: Opener) {
    this.#storage = storage
    this.#agents = agents
  }

  async create(
    parent: string,
    {
      task,
      title,
      settings,
    }: { readonly task: KeptTask; readonly title: string; readonly settings: Settings },
  ): Promise<Child> {
    const records = this.#storage.conversations
    const [giver] = await records.get([parent])
    if (giver === undefined) throw missing(parent)
    const depth = (taskOf(giver)?.depth ?? 0) + 1
    if (depth > maxDepth)
      throw new Problem('conflict', `Tasks of tasks go no deeper than ${maxDepth}. Do it yourself.`)
    const id = randomUUID()
    const { wire }: KeptRequest = JSON.parse(giver.request ?? '{}')
    const origin = { task: { ...task, depth }, ...(wire === undefined ? {} : { wire }) }
    const sealed = this.#agents.seal(settings, origin)
    // For people who look at a list, in which it stands beside the others.
    const tags = { task: task.id, subagent: task.subagent }
    await records.create({ id, title, tags, ...sealed, parent })
    // Deleted in the meantime: then its children are gone, and nobody would look for this one.
    const [still] = await records.get([parent])
    if (still !== undefined) return await this.#agents.get(id)
    await records.remove(id)
    throw missing(parent)
  }

  async find(parent: string, task: string) {
    for (const record of await this.#children(parent)) {
      const kept = taskOf(record)
      if (kept?.id === task) return { task: kept, child: await this.#agents.get(record.id) }
    }
    return undefined
  }

  async list(parent: string): Promise<readonly KeptTask[]> {
    const tasks = (await this.#children(parent)).map(taskOf)
    return tasks.filter((task) => task !== undefined)
  }

  async last(parent: string): Promise<number> {
    const [record] = await this.#storage.conversations.get([parent])
    const kept = (await this.list(parent)).map(({ id }) => id)
    const numbers = [...kept, ...usedIn(record), ...(await this.#copied(record))].map(numberOf)
    return Math.max(0, ...numbers)
  }

  /** The ids of the conversations that do tasks of a parent, and go when it goes. */
  async idsOf(parent: string): Promise<readonly string[]> {
    const children = await this.#children(parent)
    return children.filter((record) => taskOf(record) !== undefined).map(({ id }) => id)
  }

  async #children(parent: string): Promise<readonly ConversationRecord[]> {
    const records = this.#storage.conversations
    const found = await records.get(await records.children(parent))
    return found.filter((record) => record !== undefined)
  }

  /** The tasks that a copy brought along in its log: theirs are the children of the conversation that it is a copy of. */
  async #copied(record: ConversationRecord | undefined): Promise<readonly string[]> {
    const kept: KeptRequest = JSON.parse(record?.request ?? '{}')
    if (record === undefined || kept.forked_from_conversation_id === undefined) return []
    const ids = new Set<string>()
    let page_id: string | undefined
    do {
      const query = { kind: 'ObservationEvent', limit: page, sort_order: 'TIMESTAMP', page_id } as const
      const found = await this.#storage.log.search(record.id, query)
      for (const { bytes } of found.items) {
        if (!bytes.includes('"TaskObservation"')) continue
        for (const [, id = ''] of bytes.toString().matchAll(inEvents)) ids.add(id)
      }
      page_id = found.next_page_id ?? undefined
      // A long log is a long way: others may have their turn.
      await setImmediate()
    } while (page_id !== undefined)
    return [...ids]
  }
}

/** The task that a conversation does, undefined when it does none. */
export function taskOf({ request }: ConversationRecord): TaskOrigin | undefined {
  // Most requests say nothing of it, and some are long.
  if (request === null || !request.includes('"task":{')) return undefined
  const kept: KeptRequest = JSON.parse(request)
  return kept.task
}

/** Tasks whose use is counted, also of those whose conversation was deleted. */
function usedIn(record: ConversationRecord | undefined): string[] {
  const { usage_to_metrics = {} }: { usage_to_metrics?: object } = JSON.parse(record?.stats ?? '{}')
  return Object.keys(usage_to_metrics).map((id) => id.replace(/^task:/, ''))
}

function numberOf(id: string): number {
  return Number(numbered.exec(id)?.[1] ?? 0)
}
