import { asRecord, parseJson } from '@slipway/shared/json'
import type { StoredEvent } from '../event-log/event-log.ts'

/** What a map of a log and its filters need of an event. */
export interface TimelineEntry {
  readonly kind: string
  readonly source: string
  /** The tool of a call or its result; empty for other events. */
  readonly tool: string
  /** An error, or a result that is one: of the tool, or of a command that ended with a code above 0. */
  readonly isFailed: boolean
}

export function timelineEntry({ bytes }: Pick<StoredEvent, 'bytes'>): TimelineEntry {
  const { kind, source, tool_name, observation } = asRecord(parseJson(bytes.toString()))
  const name = text(kind)
  const { is_error, exit_code } = asRecord(observation)
  const isFailed =
    name.endsWith('ErrorEvent') || is_error === true || (typeof exit_code === 'number' && exit_code > 0)
  return { kind: name, source: text(source), tool: text(tool_name), isFailed }
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
