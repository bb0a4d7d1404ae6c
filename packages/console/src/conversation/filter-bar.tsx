import { kindName, knownKinds, toMarkdown } from '@slipway/protocol/event-text'
import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useEffect, useState } from 'react'
import { positionAtTime } from '../api/log.ts'
import { agentServer, errorText, isSandboxServer } from '../api/session.ts'
import { showToast } from '../api/toasts.ts'
import { type EventWindow, scanLimit, useWindowState } from '../log/event-window.ts'
import { isFiltered, type LogFilter, textScopes, viewLabels, viewNames } from '../log/filters.ts'
import { Dialog } from '../ui/dialog.tsx'
import { formatNumber } from '../ui/format.ts'
import { Icon } from '../ui/icon.tsx'
import { Menu } from '../ui/menu.tsx'

interface FilterBarProps {
  readonly filter: LogFilter
  readonly setFilter: (change: LogFilter) => void
  readonly log: EventWindow
  readonly conversationId: string
  readonly jump: (position: number | undefined) => void
  readonly isExpanded: boolean
  readonly toggleExpanded: () => void
}

/** What is shown, where one is, and ways to get elsewhere. Everything here is in the address. */
export function FilterBar(props: FilterBarProps) {
  const { filter, setFilter, log, conversationId, jump, isExpanded, toggleExpanded } = props
  const [text, setText] = useSearchText(props)
  const [isOpen, setOpen] = useState(false)
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(toMarkdown(log.store.get().events))
      showToast({ text: 'The events that are loaded were copied as Markdown' })
    } catch (error) {
      showToast({ text: errorText(error), tone: 'error' })
    }
  }
  return (
    <search className="filter-bar">
      <input
        id="log-search"
        type="search"
        aria-label="Search in this log"
        placeholder="Search"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      {(filter.q !== undefined || filter.in !== undefined) && (
        <select
          aria-label="Where to search"
          value={filter.in ?? 'everything'}
          onChange={({ target }) =>
            setFilter({ in: textScopes.find((scope) => scope === target.value && scope !== 'everything') })
          }
        >
          <option value="everything">In everything</option>
          <option value="messages">In messages</option>
        </select>
      )}
      <select
        aria-label="What to show"
        value={filter.view ?? 'work'}
        onChange={({ target }) =>
          setFilter({ view: target.value === 'work' ? undefined : (target.value as 'all') })
        }
      >
        {viewNames.map((name) => (
          <option key={name} value={name}>
            {viewLabels[name]}
          </option>
        ))}
      </select>
      <button
        type="button"
        aria-pressed={filter.failed === true}
        className={filter.failed ? 'toggled' : ''}
        onClick={() => setFilter({ failed: filter.failed ? undefined : true })}
      >
        Failed only
      </button>
      <button type="button" aria-expanded={isOpen} aria-label="More filters" onClick={() => setOpen(true)}>
        <Icon name="filter" />
        {isFiltered({ ...filter, q: undefined, failed: undefined }) && <span className="dot" />}
      </button>
      {isFiltered(filter) && (
        <button
          type="button"
          className="link"
          onClick={() =>
            setFilter({
              kind: undefined,
              source: undefined,
              tool: undefined,
              failed: undefined,
              q: undefined,
              in: undefined,
              from: undefined,
              until: undefined,
            })
          }
        >
          Clear
        </button>
      )}
      <span className="spacer" />
      <Position log={log} />
      <button type="button" className="ghost wide-only" aria-pressed={isExpanded} onClick={toggleExpanded}>
        {isExpanded ? 'Collapse all' : 'Expand all'}
      </button>
      <Menu
        label="Go to, and copy"
        button={<Icon name="down" />}
        items={[
          { label: 'First event', run: () => jump(1) },
          { label: 'Last event', run: () => jump(undefined) },
          { label: 'Position or time …', run: () => setOpen(true) },
          { label: isExpanded ? 'Collapse all' : 'Expand all', run: toggleExpanded },
          { label: 'Copy as Markdown', run: () => void copy() },
        ]}
      />
      {isOpen && (
        <MoreFilters
          filter={filter}
          setFilter={setFilter}
          conversationId={conversationId}
          jump={jump}
          onClose={() => setOpen(false)}
        />
      )}
    </search>
  )
}

/** The text that is searched for, which is in the address when the typing has paused. */
function useSearchText({ filter, setFilter, log }: FilterBarProps) {
  const [text, setText] = useState(filter.q ?? '')
  useEffect(() => setText(filter.q ?? ''), [filter.q])
  useEffect(() => {
    if (text === (filter.q ?? '')) return
    const timer = setTimeout(() => {
      // The server has an index of messages, and answers at once however long the log is.
      const isLong = log.store.get().head > scanLimit
      setFilter({
        q: text || undefined,
        ...(filter.q === undefined && isLong && { in: 'messages' }),
        ...(text === '' && { in: undefined }),
      })
    }, 250)
    return () => clearTimeout(timer)
  }, [text, filter.q, setFilter, log])
  return [text, setText] as const
}

function Position({ log }: { readonly log: EventWindow }) {
  const { head, from, to } = useWindowState(log)
  if (head === 0) return null
  return (
    <span className="quiet where wide-only">
      #{formatNumber(from)} – #{formatNumber(to)} of {formatNumber(head)}
    </span>
  )
}

function MoreFilters(props: {
  readonly filter: LogFilter
  readonly setFilter: (change: LogFilter) => void
  readonly conversationId: string
  readonly jump: (position: number | undefined) => void
  readonly onClose: () => void
}) {
  const { filter, setFilter, conversationId, jump, onClose } = props
  const tools = useQuery({
    queryKey: ['tools'],
    queryFn: ({ signal }) => agentServer.call('listTools', { signal }),
    enabled: !isSandboxServer(),
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const value = (name: string) => String(form.get(name) ?? '') || undefined
    const instant = (name: string) => {
      const text = value(name)
      return text === undefined ? undefined : new Date(text).toISOString()
    }
    setFilter({
      kind: value('kind'),
      source: value('source'),
      tool: value('tool'),
      from: instant('from'),
      until: instant('until'),
    })
    onClose()
  }
  const go = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const position = Number(form.get('position'))
    const time = String(form.get('time') ?? '')
    onClose()
    try {
      if (position >= 1) jump(position)
      else if (time !== '') jump(await positionAtTime(conversationId, new Date(time).toISOString()))
    } catch (error) {
      showToast({ text: errorText(error), tone: 'error' })
    }
  }
  return (
    <Dialog title="Filter and go to" onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <label htmlFor="kind">Kind</label>
        <select id="kind" name="kind" defaultValue={filter.kind ?? ''}>
          <option value="">Any</option>
          {knownKinds.map((kind) => (
            <option key={kind} value={kind}>
              {kindName(kind)}
            </option>
          ))}
        </select>
        <label htmlFor="source">Source</label>
        <select id="source" name="source" defaultValue={filter.source ?? ''}>
          <option value="">Any</option>
          {['agent', 'user', 'environment'].map((source) => (
            <option key={source}>{source}</option>
          ))}
        </select>
        <label htmlFor="tool">Tool</label>
        <input id="tool" name="tool" list="tool-names" defaultValue={filter.tool ?? ''} />
        <datalist id="tool-names">
          {Array.isArray(tools.data) &&
            tools.data.map((tool) => <option key={String(tool)} value={String(tool)} />)}
        </datalist>
        <label htmlFor="from">From</label>
        <input id="from" name="from" type="datetime-local" step="1" defaultValue={localTime(filter.from)} />
        <label htmlFor="until">Before</label>
        <input
          id="until"
          name="until"
          type="datetime-local"
          step="1"
          defaultValue={localTime(filter.until)}
        />
        <div className="buttons">
          <button type="submit" className="primary">
            Show
          </button>
        </div>
      </form>
      <form className="stack" onSubmit={(event) => void go(event)}>
        <h3>Go to</h3>
        <label htmlFor="position">Position</label>
        <input id="position" name="position" type="number" min={1} inputMode="numeric" />
        <label htmlFor="time">or time</label>
        <input id="time" name="time" type="datetime-local" step="1" />
        <div className="buttons">
          <button type="submit">Go</button>
        </div>
      </form>
    </Dialog>
  )
}

/** The value of a field of local time for an instant. */
function localTime(instant: string | undefined): string {
  if (instant === undefined) return ''
  const date = new Date(instant)
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}
