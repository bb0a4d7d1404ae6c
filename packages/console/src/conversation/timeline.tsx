import type { CallOutput } from '@slipway/client'
import { lastChars } from '@slipway/shared/text'
import { useQuery } from '@tanstack/react-query'
import { memo, useCallback, useDeferredValue, useEffect, useLayoutEffect, useMemo, useRef } from 'react'
import { isTyping } from '../app/shortcuts.tsx'
import { type ModelCall, modelCalls } from '../list/conversation-facts.ts'
import { type EventWindow, useWindowState } from '../log/event-window.ts'
import {
  changesView,
  condensationsQuery,
  isForgotten,
  ModelViewContext,
  modelViewQuery,
} from '../log/model-view.ts'
import { groupSteps, isSameRow, type Row, rowEvents } from '../log/steps.ts'
import { formatNumber } from '../ui/format.ts'
import { Icon } from '../ui/icon.tsx'
import { RichText } from '../ui/rich-text.tsx'
import { EmptyState, ErrorState, Loading } from '../ui/states.tsx'
import { EventRow } from './event-row.tsx'
import { markHits } from './mark-hits.ts'
import { RowMenu } from './row-menu.tsx'
import { StepRow } from './step-row.tsx'

const nearEnd = 120
/** Distance from an edge, in screens, at which the next page is read. */
const readAhead = 1.5

/**
 * The log as a list that scrolls on and on with few rows in the page. When rows enter or leave above, what is
 * being read stays where it is on the screen.
 */
export function Timeline(props: {
  readonly log: EventWindow
  readonly info: CallOutput<'getConversation'> | undefined
  readonly isExpanded: boolean
  readonly query: string | undefined
  readonly jump: (position: number | undefined) => void
  /** Undefined where it is done already, or cannot be. */
  readonly searchMessages?: (() => void) | undefined
}) {
  const { log, info, isExpanded, query, jump, searchMessages } = props
  // Rows are made in the background, a few milliseconds at a time, so that scrolling stays smooth.
  const state = useDeferredValue(useWindowState(log))
  const rows = useMemo(() => groupSteps(state.events), [state.events])
  const calls = useMemo(
    () => new Map((info ? modelCalls(info) : []).map((call) => [call.responseId, call])),
    [info],
  )
  const lastChange = state.events.findLast(changesView)?.position ?? 0
  const id = info?.id ?? ''
  const condensations = useQuery({ ...condensationsQuery(id), enabled: info !== undefined }).data ?? 0
  // A long log in which nothing was condensed is not read as a whole to learn that.
  const view = useQuery({
    ...modelViewQuery(id, String(lastChange)),
    enabled: info !== undefined && (condensations > 0 || lastChange > 0),
  }).data
  const scroller = useRef<HTMLDivElement>(null)
  const { isPinned } = state
  useKeptPlace(scroller, state, isPinned)

  const check = useCallback(() => {
    const element = scroller.current
    if (element === null) return
    const { scrollTop, scrollHeight, clientHeight } = element
    const below = scrollHeight - scrollTop - clientHeight
    const { isPinned: wasPinned, from } = log.store.get()
    log.setPinned(below < nearEnd && (wasPinned || log.isAtEnd))
    if (scrollTop < clientHeight * readAhead && from > 1) void log.more('before')
    else if (below < clientHeight * readAhead) void log.more('after')
  }, [log])
  // A short page does not scroll, so it asks on its own for what is missing.
  useEffect(() => {
    if (state.loading === undefined && state.error === undefined) check()
  }, [state, check])
  useEffect(() => {
    const element = scroller.current
    if (element !== null && query) return markHits(element, query)
  }, [query])
  useStepKeys(scroller)

  const unseen = isPinned ? 0 : Math.max(0, state.head - state.seen)
  const isEmpty = rows.length === 0 && state.loading === undefined
  return (
    <div className="timeline">
      <section
        ref={scroller}
        className="timeline-scroller"
        onScroll={check}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scroller must be reachable by keyboard
        tabIndex={0}
        aria-label="Event log"
      >
        {state.from > 1 && rows.length > 0 && (
          <p className="edge quiet">
            {state.loading === 'before' ? 'Reading …' : `#${state.from - 1} and before`}
          </p>
        )}
        <ModelViewContext value={view}>
          {rows.map((row) => (
            <TimelineRow
              key={row.key}
              row={row}
              isTarget={state.target < state.head && hasPosition(row, state.target)}
              isExpanded={isExpanded}
              isForgotten={view !== undefined && rowEvents(row).some((item) => isForgotten(item, view))}
              conversationId={info?.id}
              canSteer={info !== undefined && info.agent.kind !== undefined}
              call={calls.get(responseId(row))}
            />
          ))}
        </ModelViewContext>
        {log.isAtEnd && <Draft text={state.draft.text} reasoning={state.draft.reasoning} />}
        {state.loading === 'jump' && rows.length === 0 && <Loading label="Reading the log" />}
        {state.error !== undefined && (
          <ErrorState error={state.error} retry={() => void log.jump(state.target || 1)} />
        )}
        {isEmpty && state.error === undefined && (
          <EmptyState
            icon="search"
            title={state.head === 0 ? 'Nothing happened yet' : 'Nothing matches here'}
          >
            {state.head > 0 && (
              <p>
                Events #{formatNumber(state.from)} to #{formatNumber(state.to)} of {formatNumber(state.head)}{' '}
                were searched.
              </p>
            )}
            {searchMessages && (state.from > 1 || state.to < state.head) && (
              <button type="button" onClick={searchMessages}>
                Search all messages
              </button>
            )}
          </EmptyState>
        )}
        {state.loading === 'after' && <p className="edge quiet">Reading …</p>}
      </section>
      {(!isPinned || unseen > 0) && state.head > 0 && (
        <button type="button" className="to-end" onClick={() => jump(undefined)}>
          <Icon name="down" />
          {unseen > 0 ? `${formatNumber(unseen)} new` : 'To the end'}
        </button>
      )}
      <div className="sr-only" role="status" aria-live="polite">
        {unseen > 0 ? `${unseen} new events` : ''}
      </div>
    </div>
  )
}

function hasPosition(row: Row, position: number): boolean {
  return rowEvents(row).some((item) => item.position === position)
}

function responseId(row: Row): string {
  const event = row.type === 'step' ? row.calls[0]?.action.event : row.item.event
  return String(event?.llm_response_id ?? '')
}

const TimelineRow = memo(
  function TimelineRow(props: {
    readonly row: Row
    readonly isTarget: boolean
    readonly isExpanded: boolean
    readonly isForgotten: boolean
    readonly conversationId: string | undefined
    readonly canSteer: boolean
    readonly call: ModelCall | undefined
  }) {
    const { row, isTarget, isExpanded, isForgotten, conversationId, canSteer, call } = props
    return (
      <article
        className={`entry${isTarget ? ' target' : ''}${isForgotten ? ' forgotten' : ''}`}
        data-position={row.position}
        data-positions={rowEvents(row)
          .map(({ position }) => position)
          .join(' ')}
        aria-label={`Event ${row.position}`}
        tabIndex={-1}
      >
        {isForgotten && <p className="forgotten-note quiet">The model no longer sees this</p>}
        {row.type === 'step' ? (
          <StepRow calls={row.calls} isExpanded={isExpanded} call={call} />
        ) : (
          <EventRow item={row.item} isExpanded={isExpanded} />
        )}
        <RowMenu events={rowEvents(row)} conversationId={conversationId} canSteer={canSteer} />
      </article>
    )
  },
  (a, b) =>
    isSameRow(a.row, b.row) &&
    a.isTarget === b.isTarget &&
    a.isExpanded === b.isExpanded &&
    a.isForgotten === b.isForgotten &&
    a.conversationId === b.conversationId &&
    a.canSteer === b.canSteer &&
    JSON.stringify(a.call) === JSON.stringify(b.call),
)

function Draft({ text, reasoning }: { readonly text: string; readonly reasoning: string }) {
  if (text === '' && reasoning === '') return null
  return (
    <div className="entry draft" aria-live="off">
      <span className="spinner" aria-hidden="true" /> <span className="quiet">The model is writing</span>
      {reasoning !== '' && <div className="reasoning">{lastChars(reasoning, 2_000)}</div>}
      {text !== '' && <RichText text={text} />}
    </div>
  )
}

/** Keeps the place on the screen when rows change above it; a jump scrolls to its target. */
function useKeptPlace(
  scroller: React.RefObject<HTMLDivElement | null>,
  state: { readonly events: unknown; readonly jumps: number; readonly target: number; readonly head: number },
  isPinned: boolean,
): void {
  const place = useRef<Place | undefined>(undefined)
  const lastJump = useRef(0)
  useLayoutEffect(() => {
    const element = scroller.current
    if (element === null) return
    if (state.jumps !== lastJump.current) {
      lastJump.current = state.jumps
      const target = [...element.querySelectorAll<HTMLElement>('.entry[data-position]')].findLast(
        (entry) => Number(entry.dataset.position) <= state.target,
      )
      if (state.target >= state.head || target === undefined) element.scrollTop = element.scrollHeight
      else element.scrollTop += target.getBoundingClientRect().top - element.getBoundingClientRect().top - 8
    } else if (isPinned) {
      element.scrollTop = element.scrollHeight
    } else {
      keepPlace(element, place.current)
    }
  })
  // What is on the screen before the next change: the first entry whose end is visible.
  useEffect(() => {
    const element = scroller.current
    if (element === null) return
    const remember = () => {
      const top = element.getBoundingClientRect().top
      for (const entry of element.querySelectorAll<HTMLElement>('.entry[data-position]')) {
        const box = entry.getBoundingClientRect()
        if (box.bottom <= top) continue
        place.current = { position: String(entry.dataset.position), top: box.top }
        return
      }
      place.current = undefined
    }
    remember()
    element.addEventListener('scroll', remember, { passive: true })
    return () => element.removeEventListener('scroll', remember)
  })
  // Markdown that loads late, pictures and opened parts change heights without a render of the list.
  useEffect(() => {
    const element = scroller.current
    if (element === null) return
    const observer = new ResizeObserver(() => {
      if (isPinned) element.scrollTop = element.scrollHeight
      else keepPlace(element, place.current)
    })
    for (const entry of isPinned ? [...element.children].slice(-3) : element.children) observer.observe(entry)
    observer.observe(element)
    return () => observer.disconnect()
  })
}

interface Place {
  readonly position: string
  readonly top: number
}

/** Scrolls so that an entry is where it was on the screen. */
function keepPlace(element: HTMLElement, place: Place | undefined): void {
  if (place === undefined) return
  const entry = element.querySelector<HTMLElement>(`.entry[data-position="${place.position}"]`)
  const moved = entry === null ? 0 : entry.getBoundingClientRect().top - place.top
  if (moved !== 0) element.scrollTop += moved
}

/** `j` and `k` move the focus from step to step. */
function useStepKeys(scroller: React.RefObject<HTMLDivElement | null>): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return
      if (event.key !== 'j' && event.key !== 'k') return
      const element = scroller.current
      const entries = [...(element?.querySelectorAll<HTMLElement>('.entry[data-position]') ?? [])]
      if (element === null || entries.length === 0) return
      const top = element.getBoundingClientRect().top
      const focused = entries.findIndex((entry) => entry.contains(document.activeElement))
      const visible = entries.findIndex((entry) => entry.getBoundingClientRect().bottom > top + 8)
      const at = focused === -1 ? visible : focused + (event.key === 'j' ? 1 : -1)
      const entry = entries[Math.min(Math.max(0, at), entries.length - 1)]
      entry?.focus({ preventScroll: true })
      entry?.scrollIntoView({ block: 'nearest' })
      event.preventDefault()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [scroller])
}
