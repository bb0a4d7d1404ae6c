import type { ReactNode } from 'react'
import { EmptyState, ErrorState, Loading } from './states.tsx'

interface TableRow {
  readonly key: string
  readonly cells: readonly ReactNode[]
}

/** The answer of a query as a table, on a phone as cards, or the state that it is in. */
export function Table(props: {
  readonly query: {
    readonly isPending: boolean
    readonly isError: boolean
    readonly error: unknown
    readonly refetch: () => unknown
  }
  readonly empty: string
  readonly head: readonly string[]
  readonly rows: readonly TableRow[]
}) {
  const { query, empty, head, rows } = props
  if (query.isPending) return <Loading />
  if (query.isError && rows.length === 0)
    return <ErrorState error={query.error} retry={() => void query.refetch()} />
  if (rows.length === 0) return <EmptyState icon="box" title={empty} />
  return (
    <div className="scroll-x">
      <table className="cards-on-phone">
        <thead>
          <tr>
            {head.map((name) => (
              <th key={name} scope="col">
                {name || <span className="sr-only">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, cells }) => (
            <tr key={key}>
              {cells.map((cell, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the columns are fixed
                <td key={at} data-label={head[at]}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
