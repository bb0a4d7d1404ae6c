import type { MemberChanges } from '@slipway/shared/json'
import type { TitleSearch } from '../listings.ts'

/**
 * The rows of a control plane are read and changed by the same code on SQLite, whose transactions are
 * synchronous, and on PostgreSQL, where each statement is awaited. That code is a generator: it yields a
 * statement, is resumed with its rows, and returns a result. A session runs it, synchronously or not. It must
 * not catch errors of statements, and depends on nothing but rows: a change may run again.
 *
 * Statements have `?` for values, names that both engines know, and quote `"user"`. `INDEXED BY` names the
 * index of SQLite alone, directly after the table.
 */
export type Value = string | number | boolean | Buffer | null

type Row = readonly unknown[]

/** Rows of a table, named as in SQLite, by the values of columns. */
export interface Touched {
  readonly table: string
  readonly where: Readonly<Record<string, string>>
}

interface Statement {
  readonly sql: string
  readonly values: readonly Value[]
  /** The rows that it may change, for the audit. */
  readonly touched?: Touched | undefined
  /** What it changes of a document, for the audit. */
  readonly describe?: (() => MemberChanges) | undefined
}

/** Statements, one after the other, and what they result in. */
export type Work<T> = Generator<Statement, T, readonly Row[]>

/** What the engines do not have in common. */
export interface Dialect {
  readonly name: 'sqlite' | 'postgres'
  readonly titleSearch: TitleSearch
}

export interface RowSession {
  readonly dialect: Dialect
  /** Outside of transactions. */
  read<T>(work: Work<T>): Promise<T>
  /** In a transaction that is durable when the promise resolves; an error rolls this change back alone. */
  write<T>(makeWork: () => Work<T>): Promise<T>
}

/** The rows of a statement. */
export function* query<R extends Row>(sql: string, ...values: readonly Value[]): Work<readonly R[]> {
  return (yield { sql, values }) as readonly R[]
}

/** The first column of all rows. */
export function* queryColumn<T>(sql: string, ...values: readonly Value[]): Work<readonly T[]> {
  return (yield* query<[T]>(sql, ...values)).map(([value]) => value)
}

/** The number that a statement returns, 0 without a row. */
export function* queryNumber(sql: string, ...values: readonly Value[]): Work<number> {
  return (yield* queryColumn<number>(sql, ...values))[0] ?? 0
}

/** Runs a statement that returns nothing. */
export function* execute(sql: string, ...values: readonly Value[]): Work<void> {
  yield { sql, values }
}

/** Runs a statement that may change rows, for the audit, and returns its rows. */
export function* change(touched: Touched, sql: string, ...values: readonly Value[]): Work<readonly Row[]> {
  return yield { sql, values, touched }
}
