import type { Fault } from '@slipway/protocol'

/** The server answered with something other than success. */
export class CallError extends Error {
  readonly status: number
  /** The server's own words; for a validation error its faults in one line. */
  readonly detail: string
  /** The places of a validation error (spec 2.4 HTTPValidationError), otherwise undefined. */
  readonly faults: readonly Fault[] | undefined

  constructor(status: number, detail: string, faults?: readonly Fault[]) {
    super(`${status}: ${detail}`)
    this.name = 'CallError'
    this.status = status
    this.detail = detail
    this.faults = faults
  }
}

/** Nobody answered, or the answer broke off. `cause` says what the network said. */
export class NoAnswerError extends Error {
  /** `startedBy`: the command that starts such a server. */
  constructor(url: string, cause: unknown, startedBy: string) {
    super(`No answer from ${url}. Start a server with "${startedBy}", or check the address.`, { cause })
    this.name = 'NoAnswerError'
  }
}

/** Reads what a refusal says: `{detail: text}`, `{detail: {message: text, ...}}`, `{detail: [faults]}`, or any other body. */
export async function refusal(response: Response): Promise<CallError> {
  const text = await response.text().catch(() => '')
  const detail = detailOf(text)
  if (isFaults(detail)) return new CallError(response.status, detail.map(inWords).join('; '), detail)
  const words = wordsOf(detail) ?? response.statusText
  return new CallError(response.status, words || 'The server gave no reason')
}

function detailOf(text: string): unknown {
  try {
    const body: unknown = JSON.parse(text)
    return typeof body === 'object' && body !== null && 'detail' in body ? body.detail : undefined
  } catch {
    return undefined
  }
}

function wordsOf(detail: unknown): string | undefined {
  if (typeof detail === 'string') return detail
  const message = typeof detail === 'object' && detail !== null && 'message' in detail && detail.message
  return typeof message === 'string' ? message : undefined
}

function isFaults(detail: unknown): detail is Fault[] {
  return (
    Array.isArray(detail) &&
    detail.length > 0 &&
    detail.every((item) => Array.isArray(item?.loc) && typeof item.msg === 'string')
  )
}

function inWords(fault: Fault): string {
  return fault.loc.length === 0 ? fault.msg : `${fault.loc.join('.')}: ${fault.msg}`
}
