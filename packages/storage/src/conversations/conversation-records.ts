import type { Instant } from '@slipway/protocol'
import type { RecordUpdate } from '../event-log/event-log.ts'

/** What the storage has of a conversation besides its log. */
export interface ConversationRecord {
  /** UUID, lower case with dashes. */
  readonly id: string
  readonly title: string | null
  readonly tags: Readonly<Record<string, string>>
  /** Execution status: the fold of the log's `execution_status` updates. */
  readonly status: string
  /** The create request as JSON text without secrets; null for an imported conversation. */
  readonly request: string | null
  readonly created_at: Instant
  /** Strictly increases with every append, import and patch, whatever the clock does. */
  readonly updated_at: Instant
  /** Position of the last published event; 0 when there is none. */
  readonly head: number
  /** Usage of its models, as JSON text; null when there is none. */
  readonly stats: string | null
}

/** A fold of the log up to a position, as text: a cache that can be deleted. */
export interface Snapshot {
  readonly position: number
  readonly text: string
}

/** For the process that runs the conversation only: it is in no record and in no list. */
export interface SealedState {
  /** Its secrets, sealed by the caller. */
  readonly sealed: Buffer | null
  readonly snapshot: Snapshot | null
}

export type ConversationSort = 'CREATED_AT' | 'UPDATED_AT' | 'CREATED_AT_DESC' | 'UPDATED_AT_DESC'

/** A tag with this name, and with this value unless it is undefined. */
export interface TagFilter {
  readonly name: string
  readonly value?: string | undefined
}

export interface ConversationQuery {
  readonly limit: number
  readonly sort_order: ConversationSort
  readonly status?: string | undefined
  /** Conversations with all of these tags only. */
  readonly tags?: readonly TagFilter[] | undefined
  /** Id of the first conversation, with or without dashes; an unknown one is an `unknownPageId`. */
  readonly page_id?: string | undefined
}

/** The records. Changes are durable before their promise resolves. */
export interface ConversationRecords {
  /** Creates a conversation, or returns the existing one unchanged with `created: false`. */
  create(record: {
    readonly id: string
    readonly title?: string | null | undefined
    readonly tags?: Readonly<Record<string, string>> | undefined
    readonly request?: string | null | undefined
    readonly sealed?: Buffer | undefined
    readonly status?: string | undefined
    /** The conversation that this one works for. */
    readonly parent?: string | undefined
  }): Promise<{ readonly record: ConversationRecord; readonly created: boolean }>
  /** By ids, in their order; undefined for unknown ones. */
  get(ids: readonly string[]): Promise<(ConversationRecord | undefined)[]>
  search(
    query: ConversationQuery,
  ): Promise<{ readonly items: readonly ConversationRecord[]; readonly next_page_id: string | null }>
  count(filter?: Pick<ConversationQuery, 'status' | 'tags'>): Promise<number>
  /** The length of the stored events of these conversations, or of all. */
  sumBytes(ids?: readonly string[]): Promise<number>
  /** Undefined when there is no such conversation. */
  patch(id: string, update: Omit<RecordUpdate, 'status' | 'stats'>): Promise<ConversationRecord | undefined>
  /** For each of these ids the ids of the conversations whose parent it is, the oldest first. */
  listChildren(ids: readonly string[]): Promise<(readonly string[])[]>
  /** Undefined when there is no such conversation. */
  getSealedState(id: string): Promise<SealedState | undefined>
  /** Replaces the snapshot; `updated_at` stays. Ignored for an unknown id or a position above the head. */
  saveSnapshot(id: string, snapshot: Snapshot): Promise<void>
  /** Hides it from readers and ends its tails; rows are deleted in the background. False when unknown. */
  remove(id: string): Promise<boolean>
}
