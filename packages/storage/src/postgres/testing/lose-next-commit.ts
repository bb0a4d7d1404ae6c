import pg from 'pg'

type Query = (this: pg.Client, ...values: unknown[]) => unknown

/** The next commit of a group of changes is stored, and its answer is lost with the connection. */
export function loseNextCommit(): Disposable {
  const prototype = pg.Client.prototype as { query: Query }
  const { query } = prototype
  const inGroup = new WeakSet<pg.Client>()
  let isArmed = true
  prototype.query = function (...values) {
    const result = query.apply(this, values)
    const text = textOf(values[0])
    if (text.includes('SELECT epoch FROM owner')) inGroup.add(this)
    if (!isArmed || text !== 'COMMIT' || !inGroup.has(this)) return result
    isArmed = false
    return Promise.resolve(result).then(() => {
      throw new Error('Connection terminated unexpectedly')
    })
  }
  return {
    [Symbol.dispose]() {
      prototype.query = query
    },
  }
}

function textOf(query: unknown): string {
  return String((query as { readonly text?: string } | undefined)?.text ?? query)
}
