import { useQuery } from '@tanstack/react-query'
import { type PointerEvent, useEffect, useRef } from 'react'
import { logPath } from '../api/log.ts'
import { getFromServer } from '../api/session.ts'
import { type EventWindow, useWindowState } from '../log/event-window.ts'
import { formatNumber } from '../ui/format.ts'

/** A stretch of positions, and what happened in it. */
interface Bucket {
  readonly first: number
  readonly last: number
  readonly kinds: Readonly<Record<string, number>>
  readonly failed: number
  /** Longest time without an event, in seconds. */
  readonly gap_seconds: number
}

interface Overview {
  readonly head: number
  readonly covered: number
  readonly buckets: readonly Bucket[]
}

const bucketCount = 240

/**
 * The whole log as a strip: kinds as colours, errors and long waits as marks, and the part that is shown as a
 * frame. A click or a drag goes there; the arrow keys move by a twentieth.
 */
export function Minimap(props: {
  readonly log: EventWindow
  readonly conversationId: string
  readonly jump: (position: number | undefined) => void
}) {
  const { log, conversationId, jump } = props
  const { head, from, to } = useWindowState(log)
  const canvas = useRef<HTMLCanvasElement>(null)
  const overview = useQuery({
    queryKey: ['overview', conversationId],
    queryFn: ({ signal }) => readOverview(conversationId, signal),
    refetchInterval: ({ state }) =>
      state.data === null ? false : (state.data?.covered ?? 0) < (state.data?.head ?? 0) ? 500 : 10_000,
  })
  useEffect(() => {
    const element = canvas.current
    if (element === null) return
    const draw = () => drawMinimap(element, overview.data?.buckets ?? [], { head, from, to })
    draw()
    const observer = new ResizeObserver(draw)
    observer.observe(element)
    return () => observer.disconnect()
  }, [overview.data, head, from, to])
  if (head < 2) return null
  const positionAt = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect()
    return Math.round(1 + ((event.clientY - box.top) / box.height) * (head - 1))
  }
  return (
    <div
      className="minimap"
      role="slider"
      tabIndex={0}
      aria-label="Place in the log"
      aria-orientation="vertical"
      aria-valuemin={1}
      aria-valuemax={head}
      aria-valuenow={Math.min(from, head)}
      aria-valuetext={`Event ${formatNumber(from)} of ${formatNumber(head)}`}
      onPointerDown={(event) => jump(positionAt(event))}
      onKeyDown={(event) => {
        const step = Math.max(1, Math.round(head / 20))
        const targets: Readonly<Record<string, number>> = {
          ArrowDown: to + step,
          ArrowUp: from - step,
          PageDown: to + 4 * step,
          PageUp: from - 4 * step,
          Home: 1,
          End: head,
        }
        const target = targets[event.key]
        if (target === undefined) return
        event.preventDefault()
        jump(Math.min(Math.max(1, target), head))
      }}
    >
      <canvas ref={canvas} />
    </div>
  )
}

/** Null when the server has no overviews. */
async function readOverview(id: string, signal: AbortSignal): Promise<Overview | null> {
  const response = await getFromServer(`${logPath(id)}/overview?buckets=${bucketCount}`, signal)
  return response.ok ? await response.json() : null
}

function drawMinimap(
  element: HTMLCanvasElement,
  buckets: readonly Bucket[],
  { head, from, to }: { readonly head: number; readonly from: number; readonly to: number },
): void {
  const scale = devicePixelRatio
  const width = element.clientWidth
  const height = element.clientHeight
  element.width = width * scale
  element.height = height * scale
  const context = element.getContext('2d')
  if (context === null || head === 0) return
  context.scale(scale, scale)
  const style = getComputedStyle(element)
  const color = (name: string) => style.getPropertyValue(`--${name}`)
  const y = (position: number) => ((position - 1) / head) * height
  for (const { first, last, kinds, failed, gap_seconds } of buckets) {
    const total = Object.values(kinds).reduce((sum, count) => sum + count, 0) || 1
    const top = y(first)
    const size = Math.max(1, y(last + 1) - top)
    let x = 4
    for (const [kind, name] of kindColors) {
      const share = ((kinds[kind] ?? 0) / total) * (width - 10)
      context.fillStyle = color(name)
      context.fillRect(x, top, share, Math.max(1, size - 0.5))
      x += share
    }
    if (failed > 0) {
      context.fillStyle = color('bad')
      context.fillRect(width - 5, top, 5, Math.max(2, size))
    }
    if (gap_seconds > 300) {
      context.fillStyle = color('ink-2')
      context.fillRect(0, top, 3, Math.max(2, size))
    }
  }
  context.strokeStyle = color('accent')
  context.lineWidth = 2
  const top = Math.min(y(from), height - 6)
  context.strokeRect(1, top + 1, width - 2, Math.max(5, y(to + 1) - top) - 2)
}

const kindColors = [
  ['MessageEvent', 'accent'],
  ['ActionEvent', 'map-call'],
  ['ObservationEvent', 'map-result'],
  ['Condensation', 'warn'],
] as const
