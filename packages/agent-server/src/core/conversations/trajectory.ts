import { mapMembers } from '@slipway/shared/json'
import { redactedText } from '@slipway/shared/redaction'
import { type EventLog, zipConversation } from '@slipway/storage'

interface TrajectoryOptions {
  readonly log: EventLog
  readonly id: string
  /** Last position in it; later events are left out. */
  readonly head: number
  readonly meta: unknown
  /** Its state, the file `base_state.json`. */
  readonly state: unknown
  readonly updatedAt: number
}

/**
 * A conversation as a zip file. In a folder named by its id without dashes: `meta.json`, `base_state.json` and
 * `events/event-<index from 00000>-<id>.json`. Secrets of models and sealed texts are redacted; other events
 * are the stored bytes.
 */
export function zipTrajectory(options: TrajectoryOptions): AsyncGenerator<Buffer> {
  return zipConversation({
    ...options,
    meta: redactValue(options.meta),
    files: { 'base_state.json': redactValue(options.state) },
    folder: options.id.replaceAll('-', ''),
    entryPath: ({ position, name }) => `events/event-${String(position - 1).padStart(5, '0')}-${name}`,
    transformEvent: redactExportedEvent,
  })
}

/** Tokens that this server or others of its interface have made of a secret. */
const sealedTokenPattern = /(?:slipway-sealed|gAAAAA-slipway)-[\w-]+|gAAAA[\w-]{60,}={0,2}/g
const secretMember = /^(?:api_key|aws_(?:access_key_id|secret_access_key|session_token))$/
/** A cheap test that may match too much: names may contain escapes. */
const possibleSecretPattern = /slipway-sealed-|gAAAA|api_key|aws_|\\u00/

/** The event redacted; the stored bytes when nothing in it is secret. */
export function redactExportedEvent(bytes: Buffer): Buffer {
  const text = bytes.toString()
  if (!possibleSecretPattern.test(text)) return bytes
  const original: unknown = JSON.parse(text)
  const redacted = JSON.stringify(redactValue(original))
  return redacted === JSON.stringify(original) ? bytes : Buffer.from(redacted)
}

function redactValue(value: unknown, name: string | number = ''): unknown {
  if (typeof value !== 'string') return mapMembers(value, redactValue)
  const isSecret = value !== '' && secretMember.test(String(name))
  return isSecret ? redactedText : value.replaceAll(sealedTokenPattern, redactedText)
}
