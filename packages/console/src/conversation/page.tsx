import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useLocation, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useCallback, useEffect, useRef, useState } from 'react'
import type { LogEvent } from '../api/log.ts'
import { conversationQuery } from '../api/queries.ts'
import { isTyping } from '../app/shortcuts.tsx'
import { EventWindow } from '../log/event-window.ts'
import { compileFilter, type LogFilter, serverFilter } from '../log/filters.ts'
import { Panels } from '../panels/panels.tsx'
import { ErrorState } from '../ui/states.tsx'
import { Composer } from './composer.tsx'
import { ConfirmationBar } from './confirmation.tsx'
import { FilterBar } from './filter-bar.tsx'
import { ConversationHeader } from './header.tsx'
import { Minimap } from './minimap.tsx'
import { Timeline } from './timeline.tsx'
import { useWaitingNotice } from './waiting-notice.ts'

/** One conversation: its log, what can be done with it, and panels beside it. */
export function ConversationPage() {
  const { id } = useParams({ from: '/c/$id' })
  const filter = useSearch({ from: '/c/$id' })
  // Another conversation or filter is another window; nothing of the old one stays.
  return <Conversation key={id} id={id} filter={filter} />
}

function Conversation({ id, filter }: { readonly id: string; readonly filter: LogFilter }) {
  const info = useQuery({ ...conversationQuery(id), refetchInterval: 15_000 })
  const cache = useQueryClient()
  const refreshTimer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const onLive = useCallback(
    (events: readonly LogEvent[]) => {
      // Status, title and use change with state updates; many events make one request.
      if (events.length === 0 || refreshTimer.current !== undefined) return
      refreshTimer.current = setTimeout(() => {
        refreshTimer.current = undefined
        void cache.invalidateQueries({ queryKey: ['conversation', id] })
      }, 300)
    },
    [cache, id],
  )
  useEffect(() => () => clearTimeout(refreshTimer.current), [])

  const { hash } = useLocation()
  const navigate = useNavigate({ from: '/c/$id' })
  const log = useEventWindow(id, filter, /^\d+$/.test(hash) ? Number(hash) : undefined, onLive)
  const [isExpanded, setExpanded] = useState(false)
  const [isPanelOpen, setPanelOpen] = useState(false)
  const setFilter = useCallback(
    (change: LogFilter) =>
      void navigate({
        search: (old: LogFilter) =>
          Object.fromEntries(
            Object.entries({ ...old, ...change }).filter(([, value]) => value !== undefined && value !== ''),
          ),
        hash: true,
        replace: true,
      }),
    [navigate],
  )
  const lastHash = useRef(hash)
  const jump = useCallback(
    (position: number | undefined) => {
      lastHash.current = position === undefined ? '' : String(position)
      void log.jump(position ?? Number.MAX_SAFE_INTEGER)
      void navigate({ search: true, hash: lastHash.current, replace: true })
    },
    [log, navigate],
  )
  // A link within the page, or the history, leads to another event.
  useEffect(() => {
    if (hash === lastHash.current) return
    lastHash.current = hash
    if (/^\d+$/.test(hash)) void log.jump(Number(hash))
  }, [hash, log])
  usePageKeys({
    x: () => setExpanded((old) => !old),
    f: () => setFilter({ failed: filter.failed ? undefined : true }),
    p: () => setPanelOpen((old) => !old),
    '/': () => document.getElementById('log-search')?.focus(),
    m: () => document.getElementById('message')?.focus(),
    G: () => jump(undefined),
    gg: () => jump(1),
  })
  useWaitingNotice(info.data)
  if (info.isError && info.data === undefined)
    return <ErrorState error={info.error} retry={() => void info.refetch()} />
  return (
    <div className={isPanelOpen ? 'conversation with-panel' : 'conversation'}>
      <ConversationHeader
        id={id}
        info={info.data}
        isPanelOpen={isPanelOpen}
        togglePanel={() => setPanelOpen(!isPanelOpen)}
      />
      <FilterBar
        filter={filter}
        setFilter={setFilter}
        log={log}
        conversationId={id}
        jump={jump}
        isExpanded={isExpanded}
        toggleExpanded={() => setExpanded(!isExpanded)}
      />
      <div className="log-area">
        <Timeline log={log} info={info.data} isExpanded={isExpanded} query={filter.q} jump={jump} />
        <Minimap log={log} conversationId={id} jump={jump} />
      </div>
      <div className="dock">
        <ConfirmationBar id={id} info={info.data} />
        <Composer id={id} info={info.data} />
      </div>
      {isPanelOpen && <Panels id={id} info={info.data} close={() => setPanelOpen(false)} />}
    </div>
  )
}

/** The window of a conversation and filter; it keeps its place when the filter changes. */
function useEventWindow(
  conversationId: string,
  filter: LogFilter,
  position: number | undefined,
  onLive: (events: readonly LogEvent[]) => void,
): EventWindow {
  const key = JSON.stringify(filter)
  const create = () =>
    new EventWindow({
      conversationId,
      matches: compileFilter(filter),
      serverFilter: serverFilter(filter),
      onLive,
    })
  const [current, setCurrent] = useState(() => ({ key, log: create() }))
  if (current.key !== key) setCurrent({ key, log: create() })
  const { log } = current
  const start = useRef(position)
  useEffect(() => {
    void log.open(start.current)
    return () => {
      // The next window shows the same place, or the end when the reader was there.
      const { from, to, head } = log.store.get()
      start.current = to >= head ? undefined : from
      log.close()
    }
  }, [log])
  return log
}

function usePageKeys(keys: Readonly<Record<string, () => void>>): void {
  useEffect(() => {
    let prefix = ''
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      const run = keys[prefix + event.key] ?? keys[event.key]
      prefix = event.key === 'g' && prefix === '' ? 'g' : ''
      if (run === undefined) return
      event.preventDefault()
      run()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  })
}
