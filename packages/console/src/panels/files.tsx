import { formatBytes } from '@slipway/shared/text'
import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { agentServer } from '../api/session.ts'
import { formatAgo } from '../ui/format.ts'
import { Icon, type IconName } from '../ui/icon.tsx'
import { ShowMore } from '../ui/show-more.tsx'
import { EmptyState, ErrorState, Loading } from '../ui/states.tsx'
import { FileViewer } from './file-viewer.tsx'
import type { PanelProps } from './panel-props.ts'

const icons: Readonly<Record<string, IconName>> = {
  directory: 'folder',
  file: 'file',
  link: 'link',
  other: 'box',
}

/** The files of the workspace: one directory at a time, and one file in a viewer. */
export function FilesPanel({ id, info }: PanelProps) {
  const root = info.workspace.working_dir.replace(/(.)\/+$/, '$1')
  const [directory, setDirectory] = useState(root)
  const [file, setFile] = useState<{ readonly path: string; readonly sizeBytes: number | null }>()
  const [isAll, setAll] = useState(false)
  const open = (path: string) => {
    setFile(undefined)
    setDirectory(path)
  }
  return (
    <div className="files-panel">
      <Breadcrumb root={root} path={file?.path ?? directory} open={open} />
      {file === undefined ? (
        <>
          <Directory
            id={id}
            path={directory}
            version={info.updated_at}
            isAll={isAll}
            open={open}
            openFile={(path, sizeBytes) => setFile({ path, sizeBytes })}
          />
          <label className="quiet">
            <input type="checkbox" checked={isAll} onChange={() => setAll(!isAll)} /> Hidden files
          </label>
        </>
      ) : (
        <FileViewer id={id} path={file.path} sizeBytes={file.sizeBytes} version={info.updated_at} />
      )}
    </div>
  )
}

/** The way from the workspace to what is shown; each part leads there. */
function Breadcrumb(props: {
  readonly root: string
  readonly path: string
  readonly open: (path: string) => void
}) {
  const { root, path, open } = props
  const names = path.slice(root.length).split('/').filter(Boolean)
  const parts = names.map((name, at) => ({
    name,
    path: [root.replace(/\/$/, ''), ...names.slice(0, at + 1)].join('/'),
  }))
  return (
    <nav className="breadcrumb" aria-label="Path">
      <button
        type="button"
        className="link"
        title={root}
        onClick={() => open(root)}
        disabled={parts.length === 0}
      >
        {root.slice(root.lastIndexOf('/') + 1) || root}
      </button>
      {parts.map((part, at) => (
        <span key={part.path}>
          <span className="quiet" aria-hidden="true">
            {' / '}
          </span>
          <button
            type="button"
            className="link"
            disabled={at === parts.length - 1}
            onClick={() => open(part.path)}
          >
            {part.name}
          </button>
        </span>
      ))}
    </nav>
  )
}

function Directory(props: {
  readonly id: string
  readonly path: string
  readonly version: string
  readonly isAll: boolean
  readonly open: (path: string) => void
  readonly openFile: (path: string, sizeBytes: number | null) => void
}) {
  const { id, path, version, isAll, open, openFile } = props
  const pages = useInfiniteQuery({
    queryKey: ['files', id, path, isAll, version],
    queryFn: ({ pageParam, signal }) =>
      agentServer.call('listConversationDirectory', {
        params: { runtime_conversation_id: id },
        query: {
          path,
          limit: '100',
          ...(isAll && { include_hidden: 'true' }),
          ...(pageParam !== '' && { page_id: pageParam }),
        },
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ next_page_id }) => next_page_id ?? undefined,
    placeholderData: (old, query) => (query?.queryKey[2] === path ? old : undefined),
  })
  if (pages.isPending) return <Loading />
  if (pages.isError) return <ErrorState error={pages.error} retry={() => void pages.refetch()} />
  const items = pages.data.pages.flatMap((page) => page.items)
  if (items.length === 0) return <EmptyState icon="folder" title="Nothing in this directory" />
  return (
    <>
      <ul className="files">
        {items.map(({ name, path, kind, size_bytes, modified_at }) => (
          <li key={name}>
            <button
              type="button"
              className="file"
              disabled={kind === 'other'}
              onClick={() => (kind === 'directory' ? open(path) : openFile(path, size_bytes))}
            >
              <Icon name={icons[kind] ?? 'file'} />
              <span className="mono file-name" dir="auto">
                {name}
                {kind === 'directory' && '/'}
              </span>
              <span className="quiet">{size_bytes !== null && formatBytes(size_bytes)}</span>
              <span className="quiet wide-only">
                {modified_at !== null && formatAgo(Date.parse(modified_at))}
              </span>
            </button>
          </li>
        ))}
      </ul>
      <ShowMore pages={pages} />
    </>
  )
}
