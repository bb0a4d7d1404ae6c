import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { conversationCost, modelCalls } from '../list/conversation-facts.ts'
import { formatCompact, formatCost, formatDuration } from '../ui/format.ts'
import { EmptyState } from '../ui/states.tsx'
import { Facts } from './facts.tsx'
import type { PanelProps } from './panel-props.ts'

/** What the models used: in all, and call by call. */
export function UsagePanel({ info }: PanelProps) {
  const calls = modelCalls(info)
  if (calls.length === 0) return <EmptyState icon="spark" title="No model was asked yet" />
  const sum = (value: (call: (typeof calls)[number]) => number) =>
    calls.reduce((total, call) => total + value(call), 0)
  const prompt = sum((call) => call.promptTokens)
  const cached = sum((call) => call.cacheReadTokens)
  let cost = 0
  const running = calls.map((call) => {
    cost += call.cost
    return cost
  })
  const facts: readonly (readonly [string, string])[] = [
    ['Cost', formatCost(conversationCost(info))],
    ['Model calls', String(calls.length)],
    ['Tokens read', formatCompact(prompt)],
    ['Tokens written', formatCompact(sum((call) => call.completionTokens))],
    ['From cache', prompt === 0 ? '–' : `${Math.round((cached / prompt) * 100)} %`],
    ['Time per call', formatDuration((sum((call) => call.seconds) / calls.length) * 1_000)],
  ]
  return (
    <>
      <Facts facts={facts} />
      <Plot title="Tokens read" values={calls.map((call) => call.promptTokens)} format={formatCompact} />
      <Plot
        title="Tokens written"
        values={calls.map((call) => call.completionTokens)}
        format={formatCompact}
      />
      <Plot title="Cost so far" values={running} format={formatCost} />
      <Plot
        title="Seconds per call"
        values={calls.map((call) => call.seconds)}
        format={(value) => `${value} s`}
      />
    </>
  )
}

function Plot(props: {
  readonly title: string
  readonly values: readonly number[]
  readonly format: (value: number) => string
}) {
  const { title, values, format } = props
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = place.current
    if (element === null) return
    const style = getComputedStyle(element)
    const axis = {
      stroke: style.getPropertyValue('--ink-2'),
      grid: { stroke: style.getPropertyValue('--line') },
    }
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: 130,
        legend: { show: false },
        cursor: { y: false },
        scales: {
          x: { time: false },
          y: { range: (_, min, max) => [Math.min(0, min), max > 0 ? max * 1.1 : 1] },
        },
        axes: [axis, { ...axis, size: 64, values: (_, ticks) => ticks.map(format) }],
        series: [
          {},
          { stroke: style.getPropertyValue('--accent'), width: 2, points: { show: values.length < 40 } },
        ],
      },
      [values.map((_, at) => at + 1), [...values]],
      element,
    )
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: 130 }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.destroy()
    }
  }, [values, format])
  return (
    <figure className="plot">
      <figcaption>{title}</figcaption>
      <div
        ref={place}
        role="img"
        aria-label={`${title}: last value ${format(values.at(-1) ?? 0)}, ${values.length} model calls`}
      />
    </figure>
  )
}
