import {
  callSummary,
  contentText,
  eventTime,
  exitCode,
  isFailure,
  recordOf,
  textOf,
} from '@slipway/protocol/event-text'
import { memo } from 'react'
import type { LogEvent } from '../api/log.ts'
import type { ModelCall } from '../list/conversation-facts.ts'
import type { Call } from '../log/steps.ts'
import { Fold } from '../ui/fold.tsx'
import { formatClock, formatCompact, formatCost, formatDateTime, formatDuration } from '../ui/format.ts'
import { Icon, type IconName } from '../ui/icon.tsx'
import { LongText } from '../ui/long-text.tsx'
import { RichText } from '../ui/rich-text.tsx'
import { CallBody } from './call-body.tsx'
import { ResultBody } from './result-body.tsx'

/** A response of the model: what it thought, and its calls with their results. */
export const StepRow = memo(function StepRow(props: {
  readonly calls: readonly Call[]
  readonly isExpanded: boolean
  readonly call: ModelCall | undefined
}) {
  const { calls, isExpanded, call } = props
  const first = calls[0]?.action
  if (first === undefined) return null
  const thought = contentText(first.event.thought)
  const reasoning = reasoningText(first)
  return (
    <div className="step">
      <EntryHead item={first} icon="spark" label="Agent">
        {call !== undefined && (
          <span className="quiet">
            {formatCompact(call.promptTokens)} → {formatCompact(call.completionTokens)} tokens
            {call.cost > 0 && ` · ${formatCost(call.cost)}`}
            {call.seconds > 0 && ` · ${formatDuration(call.seconds * 1_000)}`}
          </span>
        )}
      </EntryHead>
      {reasoning !== '' && (
        <Fold summary="Reasoning" isOpen={isExpanded}>
          <div className="reasoning">
            <LongText text={reasoning} render={(part) => <div className="plain">{part}</div>} />
          </div>
        </Fold>
      )}
      {thought !== '' && <RichText text={thought} />}
      <div className={calls.length > 1 ? 'calls parallel' : 'calls'}>
        {calls.map((one) => (
          <CallCard key={one.action.position} {...one} isExpanded={isExpanded} />
        ))}
      </div>
    </div>
  )
})

function CallCard({ action, result, isExpanded }: Call & { readonly isExpanded: boolean }) {
  const { event } = action
  const tool = String(event.tool_name ?? 'tool')
  const isFailed = result !== undefined && isFailure(result.event)
  const duration = result === undefined ? Number.NaN : eventTime(result.event) - eventTime(event)
  const code = result === undefined ? undefined : exitCode(result.event)
  const risk = textOf(event.security_risk)
  if (tool === 'finish')
    return <RichText text={textOf(recordOf(event.action).message) ?? textOf(event.summary) ?? 'Finished'} />
  return (
    <Fold
      className={isFailed ? 'call failed' : 'call'}
      isOpen={isExpanded || isFailed || tool === 'task_tracker'}
      summary={
        <>
          <Icon name={toolIcon(tool)} />
          <span className="tool">{tool}</span>
          <span className="call-summary mono" dir="auto">
            {callSummary(event)}
          </span>
          {risk !== undefined && risk !== 'UNKNOWN' && (
            <span className={`risk ${risk.toLowerCase()}`}>{risk.toLowerCase()} risk</span>
          )}
          {code !== undefined && code !== 0 && <span className="risk high">exit {code}</span>}
          {isFailed && code === undefined && <span className="risk high">failed</span>}
          <span className="quiet">{result === undefined ? 'no result yet' : formatDuration(duration)}</span>
        </>
      }
    >
      <div className="call-parts">
        <CallBody event={event} hasResult={result !== undefined} />
        {result !== undefined && <ResultBody event={result.event} action={event} />}
      </div>
    </Fold>
  )
}

/** Position, who, when; the position links to itself. */
export function EntryHead(props: {
  readonly item: LogEvent
  readonly icon: IconName
  readonly label: string
  readonly children?: React.ReactNode
}) {
  const { item, icon, label, children } = props
  const time = eventTime(item.event)
  return (
    <header className="entry-head">
      <Icon name={icon} />
      <strong>{label}</strong>
      {children}
      <span className="spacer" />
      <time className="quiet" title={formatDateTime(time)}>
        {formatClock(time)}
      </time>
      <span className="position quiet">#{item.position}</span>
    </header>
  )
}

function reasoningText({ event }: LogEvent): string {
  const blocks = Array.isArray(event.thinking_blocks) ? event.thinking_blocks : []
  const thinking = blocks
    .map((block) => textOf(recordOf(block).thinking))
    .filter((text) => text !== undefined)
  return textOf(event.reasoning_content) || thinking.join('\n\n')
}

function toolIcon(tool: string): IconName {
  if (/bash|terminal|shell/.test(tool)) return 'terminal'
  if (/edit|write|patch|replace/.test(tool)) return 'edit'
  if (/browser|web|fetch/.test(tool)) return 'globe'
  if (/task/.test(tool)) return 'tasks'
  if (/read|list|glob|grep|search|view/.test(tool)) return 'file'
  return 'tool'
}
