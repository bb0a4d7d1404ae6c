import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import {
  countJsonMembers,
  defaultSource,
  duplicateMemberIssue,
  executionStatus,
  findDuplicateMember,
  formatInstant,
  hasDuplicateMember,
  type Moment,
  maxDepth,
  nextInstant,
  parseMoment,
  type ValidationIssue,
  validateEvent,
} from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { ReceivedEvent } from './event-log.ts'

type ParsedEventLine =
  | {
      readonly kind: 'value'
      readonly value: Record<string, unknown>
      /** An object of the line has a name twice; `value` has the last one. */
      readonly hasDuplicate: boolean
    }
  | { readonly kind: 'issues'; readonly issues: readonly ValidationIssue[] }

/** Parses the JSON object of a line. The `loc` of an issue starts at the object's root. */
export function parseEventLine(bytes: Buffer): ParsedEventLine {
  const issue = (msg: string, type: string): ParsedEventLine => ({
    kind: 'issues',
    issues: [{ loc: [], msg, type }],
  })
  if (!isUtf8(bytes)) return issue('Line is not valid UTF-8', 'json_invalid')
  const members = countJsonMembers(bytes)
  if (members === undefined) return issue(`JSON is nested deeper than ${maxDepth} levels`, 'json_invalid')
  const value = parseJson(bytes.toString('utf8'))
  if (value === undefined) return issue('Line is not valid JSON', 'json_invalid')
  if (!isRecord(value)) return issue('Input should be an object', 'model_type')
  return { kind: 'value', value, hasDuplicate: hasDuplicateMember(members, value) }
}

/** The issue of a line that has a name twice. */
export function duplicateIssues(bytes: Buffer): readonly ValidationIssue[] {
  return [{ ...duplicateMemberIssue, loc: findDuplicateMember(bytes.toString('utf8')) ?? [] }]
}

/** Validates a received event; with `keep` (other versions) only its `kind`, `id` and `timestamp`. */
export function eventIssues(value: Record<string, unknown>, keep: boolean): readonly ValidationIssue[] {
  if (value.id === '')
    return [{ loc: ['id'], msg: 'String should have at least 1 character', type: 'string_too_short' }]
  if (!keep) return validateEvent(value)
  return ['kind', 'id', 'timestamp'].flatMap((member) => {
    const loc = [member]
    if (value[member] === undefined)
      return member === 'kind' ? [{ loc, msg: 'Field required', type: 'missing' }] : []
    const isText = typeof value[member] === 'string'
    return isText ? [] : [{ loc, msg: 'Input should be a valid string', type: 'string_type' }]
  })
}

/**
 * The event for the log. A missing id or timestamp is inserted at the front of its text (the timestamp
 * strictly above that of `last`, its predecessor); the other bytes stay. With `keep`, a timestamp that is no
 * date-time sorts at its predecessor's moment.
 */
export function toReceivedEvent(
  bytes: Buffer,
  value: Record<string, unknown>,
  options: { readonly keep: boolean; readonly last: Moment | undefined; readonly now: number },
): ReceivedEvent {
  const kind = String(value.kind)
  const { keep, last = { instant: 0 }, now } = options
  const added: Record<string, string> = {}
  let { id, timestamp } = value
  if (typeof id !== 'string') added.id = id = randomUUID()
  if (typeof timestamp !== 'string')
    added.timestamp = timestamp = formatInstant(nextInstant(now, last.instant))
  const { instant, finer } = parseMoment(String(timestamp)) ?? last
  const source = typeof value.source === 'string' ? value.source : (defaultSource(kind) ?? '')
  return {
    bytes: Object.keys(added).length === 0 ? bytes : insertMembers(bytes, added),
    id: String(id),
    instant,
    ...(finer ? { finer } : {}),
    kind,
    source,
    keepDuplicateId: keep,
    ...(typeof value.key === 'string' ? { key: value.key } : {}),
  }
}

/** The new execution status when the event is an update of it. */
export function readExecutionStatus(value: Record<string, unknown>): string | undefined {
  if (value.kind !== 'ConversationStateUpdateEvent' || value.key !== 'execution_status') return undefined
  return executionStatus.safeParse(value.value).data
}

function insertMembers(bytes: Buffer, members: Record<string, string>): Buffer {
  const open = bytes.indexOf('{') + 1
  const text = JSON.stringify(members).slice(1, -1)
  const isEmpty = /^\s*}/.test(bytes.toString('latin1', open, Math.min(bytes.length, open + 64)))
  return Buffer.concat([
    bytes.subarray(0, open),
    Buffer.from(isEmpty ? text : `${text},`),
    bytes.subarray(open),
  ])
}
