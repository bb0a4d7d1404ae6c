import type { CallOutput } from '@slipway/client'
import { useLocation, useNavigate } from '@tanstack/react-router'
import { type ReactNode, useCallback, useEffect, useRef, useState } from 'react'
import type { LogEvent } from '../api/log.ts'
import { isTyping } from '../app/shortcuts.tsx'
import { EventWindow } from '../log/event-window.ts'
import { compileFilter, isMessageSearch, type LogFilter, serverFilter } from '../log/filters.ts'
import { FilterBar } from './filter-bar.tsx'
import { Minimap } from './minimap.tsx'
import { Timeline } from './timeline.tsx'

/**
 * The log of a conversation between what stands above and below it. The filter and the position are in the
 * address; `keys` are shortcuts besides its own. `onLive` gets new events and must stay the same.
 */
export function LogView(props: {
  readonly id: string
  readonly filter: LogFilter
  /** Undefined where the conversation cannot be steered from an event. */
  readonly info?: CallOutput<'getConversation'> | undefined
  readonly keys?: Readonly<Record<string, () => void>>
  readonly onLive: (events: readonly LogEvent[]) => void
  readonly head: ReactNode
  readonly dock: ReactNode
  readonly panel?: ReactNode
}) {
  const { id, filter, info, keys, onLive, head, dock, panel } = props
  const { hash } = useLocation()
  const navigate = useNavigate({ from: '/c/$id' })
  const log = useEventWindow(id, filter, /^\d+$/.test(hash) ? Number(hash) : undefined, onLive)
  const [isExpanded, setExpanded] = useState(false)
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
    '/': () => document.getElementById('log-search')?.focus(),
    m: () => document.getElementById('message')?.focus(),
    G: () => jump(undefined),
    gg: () => jump(1),
    ...keys,
  })
  return (
    <div className={panel ? 'conversation with-panel' : 'conversation'}>
      {head}
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
        <Timeline
          log={log}
          info={info}
          isExpanded={isExpanded}
          query={filter.q}
          jump={jump}
          searchMessages={
            isMessageSearch({ ...filter, in: 'messages' }) && filter.in !== 'messages'
              ? () => setFilter({ in: 'messages' })
              : undefined
          }
        />
        <Minimap log={log} conversationId={id} jump={jump} />
      </div>
      <div className="dock">{dock}</div>
      {panel}
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
