import { isFailedObservation } from '@slipway/protocol/event-text'
import { asRecord, parseJson } from '@slipway/shared/json'
import type { StoredEvent } from '../event-log/event-log.ts'

/** What a map of a log and its filters need of an event. */
export interface TimelineEntry {
  readonly kind: string
  readonly source: string
  /** The tool of a call or its result; empty for other events. */
  readonly tool: string
  /** An error, or a result that is one: of the tool, or of a command that did not end with 0. */
  readonly isFailed: boolean
}

export function timelineEntry({ bytes }: Pick<StoredEvent, 'bytes'>): TimelineEntry {
  const { kind, source, tool_name, observation } = asRecord(parseJson(bytes.toString()))
  const name = text(kind)
  const isFailed = name.endsWith('ErrorEvent') || isFailedObservation(observation)
  return { kind: name, source: text(source), tool: text(tool_name), isFailed }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
