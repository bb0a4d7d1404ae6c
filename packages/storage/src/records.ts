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
  /** Moves with every append, import and patch. */
  readonly updated_at: Instant
  /** Position of the last published event; 0 when there is none. */
  readonly head: number
}

export type ConversationSort = 'CREATED_AT' | 'UPDATED_AT' | 'CREATED_AT_DESC' | 'UPDATED_AT_DESC'

export interface ConversationQuery {
  readonly limit: number
  readonly sort_order: ConversationSort
  readonly status?: string | undefined
  /** Id of the first conversation of the page, with or without dashes; Problem `invalid` at `["query","page_id"]` if unknown. */
  readonly page_id?: string | undefined
}

/** The plain rows. Written durably before the promise resolves. */
export interface Records {
  /** Creates it, or answers the one that is there (`created: false`, nothing changed). */
  create(record: {
    readonly id: string
    readonly title?: string | null
    readonly tags?: Readonly<Record<string, string>>
    readonly request?: string | null
    readonly status?: string
  }): Promise<{ readonly record: ConversationRecord; readonly created: boolean }>
  /** By ids, in the order asked for, undefined for those that are not there. */
  get(ids: readonly string[]): Promise<(ConversationRecord | undefined)[]>
  search(
    query: ConversationQuery,
  ): Promise<{ readonly items: readonly ConversationRecord[]; readonly next_page_id: string | null }>
  count(status?: string): Promise<number>
  /** Changes the members given; undefined when there is no such conversation. */
  patch(
    id: string,
    change: { readonly title?: string | null; readonly tags?: Readonly<Record<string, string>> },
  ): Promise<ConversationRecord | undefined>
  /** It is gone for every reader when this resolves (tails end); its rows are removed behind. False when it was not there. */
  remove(id: string): Promise<boolean>
}
