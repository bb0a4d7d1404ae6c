import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { ChildConversation, ChildConversations, Conversation, StoredTask } from '@slipway/agent'
import { Problem } from '@slipway/protocol'
import type { ConversationRecord, Storage } from '@slipway/storage'
import { conversationNotFound } from './conversation-info.ts'
import type { SealedSettings } from './sealed-settings.ts'
import { type ConversationOrigin, readStoredRequest, type StoredRequest } from './stored-request.ts'

const maxDepth = 4
const pageSize = 100
const taskIdPattern = /^task_(\d{8,15})$/
const taskIdInEvent = /"task_id":"(task_\d{8,15})"/g

interface ConversationOpener {
  readonly settings: Pick<SealedSettings, 'seal'>
  get(id: string): Promise<Conversation>
}

/** Conversations that run tasks of others. The task is a part of the record, so both exist equally long. */
export class TaskConversations implements ChildConversations {
  readonly #storage: Storage
  readonly #registry: ConversationOpener

  constructor(storage: Storage, registry: ConversationOpener) {
    this.#storage = storage
    this.#registry = registry
  }

  async create(
    parent: string,
    { task, title, settings }: Parameters<ChildConversations['create']>[1],
  ): Promise<ChildConversation> {
    const records = this.#storage.conversations
    const [parentRecord] = await records.get([parent])
    if (parentRecord === undefined) throw conversationNotFound(parent)
    const depth = (readTask(parentRecord)?.depth ?? 0) + 1
    if (depth > maxDepth)
      throw new Problem('conflict', `Tasks of tasks go no deeper than ${maxDepth}. Do it yourself.`)
    const id = randomUUID()
    const { wire } = readStoredRequest(parentRecord)
    const origin = { task: { ...task, depth }, wire }
    const sealed = this.#registry.settings.seal(settings, origin)
    // Shown in lists of conversations.
    const tags = { task: task.id, subagent: task.subagent }
    await records.create({ id, title, tags, ...sealed, parent })
    // Otherwise the parent was deleted meanwhile, and nothing would remove this one.
    const [current] = await records.get([parent])
    if (current !== undefined) return await this.#registry.get(id)
    await records.remove(id)
    throw conversationNotFound(parent)
  }

  async find(parent: string, task: string) {
    for (const record of await this.#listChildRecords(parent)) {
      const stored = readTask(record)
      if (stored?.id === task) return { task: stored, child: await this.#registry.get(record.id) }
    }
    return undefined
  }

  async list(parent: string): Promise<readonly StoredTask[]> {
    const tasks = (await this.#listChildRecords(parent)).map(readTask)
    return tasks.filter((task) => task !== undefined)
  }

  async lastTaskNumber(parent: string): Promise<number> {
    const [record] = await this.#storage.conversations.get([parent])
    const taskIds = (await this.list(parent)).map(({ id }) => id)
    const numbers = [...taskIds, ...listUsedTaskIds(record), ...(await this.#listCopiedTaskIds(record))].map(
      taskNumber,
    )
    return Math.max(0, ...numbers)
  }

  /** Ids of the conversations that run tasks of a parent and are removed with it. */
  async listChildIds(parent: string): Promise<readonly string[]> {
    const children = await this.#listChildRecords(parent)
    return children.filter((record) => readTask(record) !== undefined).map(({ id }) => id)
  }

  async #listChildRecords(parent: string): Promise<readonly ConversationRecord[]> {
    const records = this.#storage.conversations
    const found = await records.get((await records.listChildren([parent])).flat())
    return found.filter((record) => record !== undefined)
  }

  /** Ids of tasks in the log of a copy: their conversations are children of the original. */
  async #listCopiedTaskIds(record: ConversationRecord | undefined): Promise<readonly string[]> {
    const stored = readStoredRequest(record)
    if (record === undefined || stored.forked_from_conversation_id === undefined) return []
    const ids = new Set<string>()
    let page_id: string | undefined
    do {
      const query = { kind: 'ObservationEvent', limit: pageSize, sort_order: 'TIMESTAMP', page_id } as const
      const result = await this.#storage.log.search(record.id, query)
      for (const { bytes } of result.items) {
        if (!bytes.includes('"TaskObservation"')) continue
        for (const [, id = ''] of bytes.toString().matchAll(taskIdInEvent)) ids.add(id)
      }
      page_id = result.next_page_id ?? undefined
      // Lets other work run between the pages of a long log.
      await setImmediate()
    } while (page_id !== undefined)
    return [...ids]
  }
}

/** The task that a conversation runs, if any. */
export function readTask({ request }: ConversationRecord): ConversationOrigin['task'] {
  // Avoids parsing most requests, some of which are long.
  if (request === null || !request.includes('"task":{')) return undefined
  const stored: StoredRequest = JSON.parse(request)
  return stored.task
}

/** Tasks with usage statistics, also those of deleted conversations. */
function listUsedTaskIds(record: ConversationRecord | undefined): string[] {
  const { usage_to_metrics = {} }: { usage_to_metrics?: object } = JSON.parse(record?.stats ?? '{}')
  return Object.keys(usage_to_metrics).map((id) => id.replace(/^task:/, ''))
}

function taskNumber(id: string): number {
  return Number(taskIdPattern.exec(id)?.[1] ?? 0)
}
