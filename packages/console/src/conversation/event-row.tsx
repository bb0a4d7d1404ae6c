import {
  contentImages,
  contentText,
  exitCode,
  externalCallDiffs,
  externalCallSummary,
  externalCallText,
  firstLine,
  isFailure,
  kindName,
  recordOf,
  textOf,
} from '@slipway/protocol/event-text'
import { firstChars } from '@slipway/shared/text'
import { Link } from '@tanstack/react-router'
import { memo, use } from 'react'
import type { LogEvent } from '../api/log.ts'
import { ModelViewContext } from '../log/model-view.ts'
import { Ansi } from '../ui/ansi.tsx'
import { Diff } from '../ui/diff.tsx'
import { Fold } from '../ui/fold.tsx'
import { formatNumber } from '../ui/format.ts'
import { LongText } from '../ui/long-text.tsx'
import { Picture } from '../ui/picture.tsx'
import { RichText } from '../ui/rich-text.tsx'
import { Members } from './call-body.tsx'
import { ResultBody } from './result-body.tsx'
import { EntryHead } from './step-row.tsx'

/** One event that is no tool call. */
export const EventRow = memo(function EventRow(props: {
  readonly item: LogEvent
  readonly isExpanded: boolean
}) {
  const { item, isExpanded } = props
  const { event } = item
  switch (event.kind) {
    case 'MessageEvent':
      return <MessageRow item={item} isExpanded={isExpanded} />
    case 'SystemPromptEvent': {
      const tools = Array.isArray(event.tools) ? event.tools.length : 0
      const text = contentText([event.system_prompt, event.dynamic_context])
      return (
        <Fold
          className="fold"
          isOpen={isExpanded}
          summary={<Line item={item} text={`${formatNumber(text.length)} characters, ${tools} tools`} />}
        >
          <LongText text={text} render={(part) => <div className="plain">{part}</div>} />
        </Fold>
      )
    }
    case 'Condensation':
    case 'CondensationSummaryEvent': {
      const forgotten = Array.isArray(event.forgotten_event_ids) ? event.forgotten_event_ids.length : 0
      const summary = textOf(event.summary) ?? ''
      return (
        <Fold
          className="fold condensation"
          isOpen={isExpanded}
          summary={
            <Line
              item={item}
              text={`The model no longer sees ${formatNumber(forgotten)} events${summary === '' ? '' : ', and sees a summary instead'}`}
            />
          }
        >
          {summary === '' ? <p className="quiet">Without a summary.</p> : <RichText text={summary} />}
        </Fold>
      )
    }
    case 'ConversationErrorEvent':
      return (
        <div className="call failed solid">
          <EntryHead item={item} icon="warn" label="Error">
            <span className="mono">{firstChars(textOf(event.code) ?? '', 200)}</span>
          </EntryHead>
          <LongText
            text={textOf(event.detail) ?? ''}
            render={(part) => <div className="plain">{part}</div>}
          />
        </div>
      )
    case 'ObservationEvent':
    case 'AgentErrorEvent':
    case 'UserRejectObservation':
      return (
        <Fold className="fold" isOpen={isExpanded} summary={<Line item={item} text={resultSummary(event)} />}>
          <ResultBody event={event} />
        </Fold>
      )
    case 'ACPToolCallEvent':
      return <ExternalCallRow item={item} isExpanded={isExpanded} />
    case 'ConversationStateUpdateEvent': {
      const key = textOf(event.key) ?? ''
      if (key === 'leaf_event_id') return <BranchRow item={item} />
      const value = typeof event.value === 'string' ? event.value : JSON.stringify(event.value)
      const text = `${key} ${firstChars(value ?? '', 120)}`
      return (
        <Fold className="fold" isOpen={isExpanded} summary={<Line item={item} text={text} />}>
          <Members value={{ key, value: event.value }} />
        </Fold>
      )
    }
    default: {
      const { kind: _, id: __, timestamp: ___, source: ____, ...rest } = event
      return (
        <Fold className="fold" isOpen={isExpanded} summary={<Line item={item} text="" />}>
          <Members value={rest} />
        </Fold>
      )
    }
  }
})

/** A call of an external agent: its title and status, what it was given, and what came of it. */
function ExternalCallRow({ item, isExpanded }: { readonly item: LogEvent; readonly isExpanded: boolean }) {
  const { event } = item
  const text = externalCallText(event)
  const diffs = externalCallDiffs(event)
  return (
    <Fold
      className={isFailure(event) ? 'fold failed' : 'fold'}
      isOpen={isExpanded}
      summary={<Line item={item} text={externalCallSummary(event)} />}
    >
      {event.raw_input !== undefined && event.raw_input !== null && <Members value={event.raw_input} />}
      {diffs.map(({ path, before, after }) => (
        <div key={path}>
          <p className="mono">{path}</p>
          <Diff before={before} after={after} />
        </div>
      ))}
      {text !== '' && <LongText text={text} render={(part) => <Ansi text={part} />} />}
    </Fold>
  )
}

/** Where the log continues from an earlier event, with a link to it. */
function BranchRow({ item }: { readonly item: LogEvent }) {
  const view = use(ModelViewContext)
  const branch = view?.branches.find(({ position }) => position === item.position)
  const from = branch?.from_position
  return (
    <div className="fold condensation">
      <Line
        item={item}
        text={
          from === null
            ? 'The log begins again; what is above is another branch'
            : 'The log continues from an earlier event; what is between is another branch'
        }
      />
      {typeof from === 'number' && (
        <Link to="." search={true} hash={String(from)}>
          Go to #{formatNumber(from)}
        </Link>
      )}
    </div>
  )
}

function MessageRow({ item, isExpanded }: { readonly item: LogEvent; readonly isExpanded: boolean }) {
  const { event } = item
  const message = recordOf(event.llm_message)
  const isUser = event.source === 'user'
  const sender = textOf(event.sender)
  const reasoning = textOf(message.reasoning_content) ?? ''
  return (
    <div className={isUser ? 'message user' : 'message'}>
      <EntryHead
        item={item}
        icon={isUser ? 'user' : 'spark'}
        label={isUser ? 'You' : event.source === 'agent' ? 'Agent' : (textOf(event.source) ?? '')}
      >
        {sender && <span className="quiet">{firstChars(sender, 100)}</span>}
      </EntryHead>
      {reasoning !== '' && (
        <Fold summary="Reasoning" isOpen={isExpanded}>
          <LongText text={reasoning} render={(part) => <div className="plain reasoning">{part}</div>} />
        </Fold>
      )}
      <RichText text={contentText(message.content)} />
      {contentImages(message.content).map((url) => (
        <Picture key={firstChars(url, 80) + url.length} url={url} label="Picture of the message" />
      ))}
    </div>
  )
}

/** The tool of a result whose call is not on the page, its command and how it ended. */
function resultSummary(event: LogEvent['event']): string {
  const command = textOf(recordOf(event.observation).command)
  const code = exitCode(event)
  const parts = [
    event.tool_name,
    command === undefined ? undefined : firstLine(command),
    code ? `exit ${code}` : undefined,
  ]
  return parts.filter((part) => part !== undefined).join(' · ')
}

/** The one line of an event that is closed. */
function Line({ item, text }: { readonly item: LogEvent; readonly text: string }) {
  return (
    <span className="line">
      <strong>{firstChars(kindName(item.event.kind), 100)}</strong>
      <span className="call-summary" dir="auto">
        {text}
      </span>
      <span className="position quiet">#{item.position}</span>
    </span>
  )
}
