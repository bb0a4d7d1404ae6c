/**
 * `owner` is held by the server that owns the data alone, `write` by transactions, `schema` by migrations,
 * `documents` by changes of documents, `ledger` and `log` by the changes of a control plane.
 */
const locks = { owner: 1, write: 2, schema: 3, documents: 5, ledger: 20, log: 21 } as const
/** A number of our own among the advisory locks of the database. */
const space = 0x5117_0a00
const serverSpace = space + 4

/** The two numbers of an advisory lock, as SQL. Locks differ between the schemas of a database. */
export function lockName(lock: keyof typeof locks): string {
  return `${space + locks[lock]}, hashtext(current_schema())`
}

/** The lock of the transactions of one server. `server` is a UUID. */
export function serverLockName(server: string): string {
  return `${serverSpace}, hashtext('${server}')`
}
