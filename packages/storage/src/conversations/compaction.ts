/** What became of a database file. Sizes are those of the file and its write-ahead log, in bytes. */
export interface CompactedFile {
  readonly name: string
  readonly before_bytes: number
  readonly after_bytes: number
  /** Free space that is left in the file. */
  readonly free_bytes: number
  /** A file of an earlier version, whose space only `compactDatabase` gives back. */
  readonly needs_stop: boolean
}

export interface CompactOptions {
  /** Ends it between two steps. */
  readonly signal: AbortSignal
  /** It ends after about this time, whatever is left. */
  readonly maxMs: number
}
