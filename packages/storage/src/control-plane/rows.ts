/** Rows with ids, and the changes that every store of them has. */
export interface Rows<R> {
  /** In the order of `ids`, undefined for a missing row. */
  get(ids: readonly string[]): Promise<(R | undefined)[]>
  /** Changes the given members and returns the new row; undefined when there is none. */
  update(id: string, members: RowChange<R>): Promise<R | undefined>
  /** False when there was none. */
  remove(id: string): Promise<boolean>
}

/** Members that are undefined stay as they are. */
export type RowChange<R> = Partial<Omit<R, 'id' | 'created_at'>>

/**
 * One page of rows, newest first unless the query says otherwise; rows of one instant are in order of their
 * ids. Pages are stable while rows come and go: a row that exists all the time is listed exactly once, unless
 * a change moves it.
 */
export interface RowPage<R> {
  readonly items: readonly R[]
  /** Opaque; null exactly when nothing more matches. */
  readonly next_page_id: string | null
}

export interface PageQuery {
  readonly limit: number
  /**
   * A `next_page_id` of the same list and order; a Problem `invalid` at `["query","page_id"]` for anything
   * else. Empty: the first page.
   */
  readonly page_id?: string | undefined
}

/** The rows of one user, in one organisation if it is set. Null: rows without a user. */
export interface Scope {
  readonly owner: string | null
  readonly org?: string | undefined
}

/** The rows of all users; for administrators only. Rows without a user are in no one's scope but `owner: null`. */
export interface AdminScope {
  readonly isEveryOwner: true
}

export type RowSort = 'CREATED_AT' | 'CREATED_AT_DESC' | 'UPDATED_AT' | 'UPDATED_AT_DESC'
