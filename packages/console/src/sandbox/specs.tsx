import { useQuery } from '@tanstack/react-query'
import { useAnswer } from '../api/queries.ts'
import { getFromServer, sandboxServer } from '../api/session.ts'
import { Table } from '../ui/table.tsx'

/** What sandboxes can be made from, and where they run. */
export function Specs() {
  const query = useAnswer(['sandbox-specs'], (signal) =>
    sandboxServer.call('searchSandboxSpecs', { query: { limit: '100' }, signal }),
  )
  return (
    <>
      <h1>Specs and backends</h1>
      <Table
        query={query}
        empty="No specs"
        head={['Id', 'Backend', 'Image', 'Network']}
        rows={(query.data?.items ?? []).map((spec) => ({
          key: spec.id,
          cells: [
            `${spec.id}${spec.is_default ? ' (default)' : ''}`,
            spec.backend,
            spec.image ?? '–',
            spec.network,
          ],
        }))}
      />
      <Backends />
    </>
  )
}

interface Backend {
  readonly name: string
  readonly isolation: {
    readonly kind: string
    readonly enforced: readonly string[]
    readonly notes: readonly string[]
  }
}

function Backends() {
  const query = useQuery({
    queryKey: ['server-info'],
    queryFn: async ({ signal }): Promise<{ uptime: number; backends: Backend[] }> =>
      await (await getFromServer('server_info', signal)).json(),
    refetchInterval: 10_000,
  })
  return (
    <>
      <h2>Backends</h2>
      <Table
        query={query}
        empty="No backends"
        head={['Name', 'Isolation', 'Limits it enforces', 'Notes']}
        rows={(query.data?.backends ?? []).map(({ name, isolation: { kind, enforced, notes } }) => ({
          key: name,
          cells: [name, kind, enforced.join(', '), notes.join(' ')],
        }))}
      />
    </>
  )
}
