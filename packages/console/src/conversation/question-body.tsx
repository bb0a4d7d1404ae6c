import { excerptRows, type ShownLine, shownAction } from '@slipway/protocol/confirmation'
import { type RefObject, useLayoutEffect, useMemo, useState } from 'react'
import type { WireEvent } from '../api/log.ts'

/** Size of a box in characters. */
export interface Room {
  readonly columns: number
  readonly rows: number
}

interface Row {
  readonly kind: ShownLine['kind']
  readonly text: string
  /** The line begins in it. */
  readonly isStart: boolean
}

/**
 * An action that waits for an answer: all of it, and nothing in it is hidden. What does not fit into the room
 * has its beginning and its end in view, and a button shows the lines between.
 */
export function QuestionBody({ event, room }: { readonly event: WireEvent; readonly room: Room }) {
  const { tool, risk, subject, lines } = useMemo(() => shownAction(event), [event])
  const rows = useMemo(() => lines.flatMap((line) => rowsOf(line, room.columns)), [lines, room.columns])
  const [isWhole, setWhole] = useState(false)
  const { first, hidden, last } = excerptRows(rows, isWhole ? Number.POSITIVE_INFINITY : room.rows)
  return (
    <div className="confirmation-call">
      <p>
        <strong>{tool}</strong>{' '}
        <span className={`risk ${risk.toLowerCase()}`}>
          {risk === 'UNKNOWN' ? 'risk unknown' : `${risk.toLowerCase()} risk`}
        </span>
      </p>
      {subject !== '' && <p className="path mono">{subject}</p>}
      {first.length > 0 && <Rows rows={first} />}
      {hidden > 0 && (
        <button type="button" className="hidden-lines" onClick={() => setWhole(true)}>
          Show {hidden} hidden {hidden === 1 ? 'line' : 'lines'}
        </button>
      )}
      {last.length > 0 && <Rows rows={last} />}
    </div>
  )
}

/** Rows of one kind are one element: the question may have thousands of them. */
function Rows({ rows }: { readonly rows: readonly Row[] }) {
  const groups: { kind: Row['kind']; text: string }[] = []
  for (const { kind, text, isStart } of rows) {
    const group = groups.at(-1)
    if (group?.kind === kind) group.text += `${isStart ? '\n' : ''}${text}`
    else groups.push({ kind, text })
  }
  return (
    <pre className="output diff question">
      {groups.map(({ kind, text }, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines of one fixed text
        <span key={at} className={kind}>
          {text}
        </span>
      ))}
    </pre>
  )
}

function rowsOf({ kind, text }: ShownLine, columns: number): Row[] {
  const characters = [...text]
  const count = Math.max(1, Math.ceil(characters.length / columns))
  return Array.from({ length: count }, (_, n) => ({
    kind,
    text: characters.slice(n * columns, (n + 1) * columns).join(''),
    isStart: n === 0,
  }))
}

/** The room of a scrolling box for the lines of `count` actions, measured by a probe of 100 characters. */
export function useRoom(probe: RefObject<HTMLElement | null>, count: number): Room {
  const [room, setRoom] = useState<Room>({ columns: 80, rows: 8 })
  useLayoutEffect(() => {
    const text = probe.current
    const box = text?.parentElement
    if (text === null || box === null || box === undefined) return
    const measure = () => {
      const { width, height } = text.getBoundingClientRect()
      const most = Number.parseFloat(getComputedStyle(box).maxHeight)
      if (width === 0 || Number.isNaN(most)) return
      setRoom({
        columns: Math.max(10, Math.floor((box.clientWidth - padding) / (width / 100))),
        rows: Math.max(3, Math.floor(most / height / Math.max(1, count)) - rowsAround),
      })
    }
    const observer = new ResizeObserver(measure)
    observer.observe(box)
    measure()
    return () => observer.disconnect()
  }, [probe, count])
  return room
}

/** Of a block of lines, left and right, in pixels. */
const padding = 24
/** What an action has beside its lines: its name, its file, the button and the padding of two blocks. */
const rowsAround = 5
