import type { Instant } from '@slipway/protocol'

/** What is known of a conversation besides its log. */
export interface ConversationRecord {
  /** UUID, lower case with dashes. */
  readonly id: string
  readonly title: string | null
  readonly tags: Readonly<Record<string, string>>
  /** Execution status: the fold of the log's last `execution_status` fact. */
  readonly status: string
  /** The create request as JSON text without secrets, or null for an imported conversation. */
  readonly request: string | null
  readonly created_at: Instant
  /** Moves with every append, import and patch: strictly upwards, whatever the clock does. */
  readonly updated_at: Instant
  /** Position of the last published event; 0 when there is none. */
  readonly head: number
  /** What its models have used, as JSON text; null when nothing was written. */
  readonly stats: string | null
}

/** A fold of the log up to a position, as text. It can be thrown away and made again. */
export interface Snapshot {
  readonly position: number
  readonly text: string
}

/** What is kept of a conversation for those that run it alone: it is in no record and in no list. */
export interface SealedState {
  /** Its secrets, sealed by the caller; what they mean is not known here. */
  readonly sealed: Buffer | null
  readonly snapshot: Snapshot | null
}

export type ConversationSort = 'CREATED_AT' | 'UPDATED_AT' | 'CREATED_AT_DESC' | 'UPDATED_AT_DESC'

/** A tag of this name; of this value when one is given. */
export interface TagFilter {
  readonly name: string
  readonly value?: string | undefined
}

export interface ConversationQuery {
  readonly limit: number
  readonly sort_order: ConversationSort
  readonly status?: string | undefined
  /** Keep only those that have all of these tags. */
  readonly tags?: readonly TagFilter[] | undefined
  /** Id of the first conversation of the page, with or without dashes; Problem `invalid` at `["query","page_id"]` if unknown. */
  readonly page_id?: string | undefined
}

/** The plain rows. Written durably before the promise resolves. */
export interface ConversationRecords {
  /** Creates it, or answers the one that is there (`created: false`, nothing changed). */
  create(record: {
    readonly id: string
    readonly title?: string | null
    readonly tags?: Readonly<Record<string, string>>
    readonly request?: string | null
    readonly sealed?: Buffer
    readonly status?: string
    /** The conversation that this one works for. */
    readonly parent?: string
  }): Promise<{ readonly record: ConversationRecord; readonly created: boolean }>
  /** By ids, in the order asked for, undefined for those that are not there. */
  get(ids: readonly string[]): Promise<(ConversationRecord | undefined)[]>
  search(
    query: ConversationQuery,
  ): Promise<{ readonly items: readonly ConversationRecord[]; readonly next_page_id: string | null }>
  count(filter?: Pick<ConversationQuery, 'status' | 'tags'>): Promise<number>
  /** Changes the members given; undefined when there is no such conversation. */
  patch(
    id: string,
    change: {
      readonly title?: string | null
      readonly tags?: Readonly<Record<string, string>>
      readonly request?: string
      readonly sealed?: Buffer
    },
  ): Promise<ConversationRecord | undefined>
  /** The ids of the conversations whose parent this one is, the oldest first. */
  listChildren(id: string): Promise<readonly string[]>
  /** Undefined when there is no such conversation. */
  getSealedState(id: string): Promise<SealedState | undefined>
  /**
   * Puts a snapshot in the place of the one before; `updated_at` stays. Nothing happens when the conversation is gone or its
   * log ends before the snapshot's position.
   */
  saveSnapshot(id: string, snapshot: Snapshot): Promise<void>
  /** It is gone for every reader when this resolves (tails end); its rows are removed behind. False when it was not there. */
  remove(id: string): Promise<boolean>
}
