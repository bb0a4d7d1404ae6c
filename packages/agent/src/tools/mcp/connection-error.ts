import { isRecord } from '@slipway/shared/json'
import { errorTextWithCause } from '@slipway/shared/text'

/**
 * A server that cannot be reached, because of its `settings`, a time-out (`time`) or a failed `connection`.
 * The message contains no values of settings.
 */
export class McpConnectionError extends Error {
  override readonly name = 'McpConnectionError'
  readonly reason: 'settings' | 'time' | 'connection'

  constructor(message: string, reason: McpConnectionError['reason'] = 'settings') {
    super(message)
    this.reason = reason
  }
}

/** Whether an error of the client package is an answer of HTTP with one of these statuses. */
export function isHttpStatus(error: unknown, statuses: readonly number[]): boolean {
  const status = httpStatus(error)
  return status !== undefined && statuses.includes(status)
}

/** What a server said when it refused a connection or a request, in its own words where it has some. */
export function describeFailure(error: unknown): string {
  const status = httpStatus(error)
  const data = error instanceof Error && 'data' in error ? error.data : undefined
  const said = isRecord(data) && typeof data.text === 'string' ? ownWords(data.text) : undefined
  const supported = isRecord(data) && Array.isArray(data.supported) ? data.supported : []
  const versions = supported.length === 0 ? '' : ` (it speaks ${supported.join(', ')})`
  if (status === undefined) return `${errorTextWithCause(error)}${versions}`
  return `HTTP ${status}: ${said ?? errorTextWithCause(error)}${versions}`
}

/** The message of a JSON-RPC error, with the revisions that it names, or the text as it is. */
function ownWords(text: string): string | undefined {
  const { error }: { error?: unknown } = Object(parsed(text))
  if (!isRecord(error) || typeof error.message !== 'string')
    return text.trim() === '' ? undefined : text.trim()
  const supported = isRecord(error.data) && Array.isArray(error.data.supported) ? error.data.supported : []
  return supported.length === 0 ? error.message : `${error.message} (it speaks ${supported.join(', ')})`
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function httpStatus(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined
  const { status, code }: { status?: unknown; code?: unknown } = error as object
  return [status, code].find((value) => typeof value === 'number' && value >= 400) as number | undefined
}
