import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useAnswer } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { Diff } from '../ui/diff.tsx'
import { EmptyState, ErrorState, Loading } from '../ui/states.tsx'
import type { PanelProps } from './panel-props.ts'

const letters: Readonly<Record<string, string>> = { ADDED: 'A', DELETED: 'D', UPDATED: 'M', MOVED: 'R' }

/** The files of the workspace that differ from what git has, and how. */
export function ChangesPanel({ info }: PanelProps) {
  const directory = info.workspace.working_dir
  const [selected, setSelected] = useState<string>()
  const changes = useQuery({
    queryKey: ['changes', directory, info.updated_at],
    queryFn: ({ signal }) => agentServer.call('gitChanges', { query: { path: directory }, signal }),
    placeholderData: (old) => old,
  })
  if (changes.isPending) return <Loading />
  if (changes.isError) return <ErrorState error={changes.error} retry={() => void changes.refetch()} />
  if (changes.data.length === 0)
    return (
      <EmptyState icon="edit" title="No changes">
        <p className="mono wrap">{directory}</p>
      </EmptyState>
    )
  return (
    <ul className="files">
      {changes.data.map(({ path, status }) => (
        <li key={path}>
          <button
            type="button"
            className="file"
            aria-expanded={path === selected}
            onClick={() => setSelected(path === selected ? undefined : path)}
          >
            <span className={`change ${status.toLowerCase()}`} title={status.toLowerCase()}>
              {letters[status] ?? status}
            </span>
            <span className="mono wrap">{path}</span>
          </button>
          {path === selected && <FileDiff path={`${directory}/${path}`} version={info.updated_at} />}
        </li>
      ))}
    </ul>
  )
}

function FileDiff({ path, version }: { readonly path: string; readonly version: string }) {
  const diff = useAnswer(['diff', path, version], (signal) =>
    agentServer.call('gitDiff', { query: { path }, signal }),
  )
  if (diff.isPending) return <Loading />
  if (diff.isError) return <ErrorState error={diff.error} />
  return <Diff before={diff.data.original ?? ''} after={diff.data.modified ?? ''} />
}
