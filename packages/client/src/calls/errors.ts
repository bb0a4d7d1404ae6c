import type { ValidationIssue } from '@slipway/protocol'
import { AnswerTooLongError, readText } from '@slipway/shared/async/read-limited'
import { isRecord, parseJson } from '@slipway/shared/json'
import { RedirectError } from '@slipway/shared/url'

const maxErrorBytes = 1024 * 1024

/** The server answered with something other than success. */
export class CallError extends Error {
  readonly status: number
  /** The server's own words; for a validation error its issues in one line. */
  readonly detail: string
  /** The places of a validation error (spec 2.4 HTTPValidationError), otherwise undefined. */
  readonly issues: readonly ValidationIssue[] | undefined
  /** Without a reason as these servers give it: the answer of a proxy before them, or of another program. */
  readonly isForeign: boolean

  constructor(status: number, detail: string, issues?: readonly ValidationIssue[], isForeign = false) {
    super(`${status}: ${detail}`)
    this.name = 'CallError'
    this.status = status
    this.detail = detail
    this.issues = issues
    this.isForeign = isForeign
  }
}

/** The server did not answer, or the answer broke off. `cause` is the network error. */
export class ConnectionError extends Error {
  /** `startedBy`: the command that starts such a server. */
  constructor(url: string, cause: unknown, startedBy: string) {
    const isExplained = cause instanceof RedirectError || cause instanceof AnswerTooLongError
    super(isExplained ? cause.message : adviceFor(url, cause, startedBy), { cause })
    this.name = 'ConnectionError'
  }
}

function adviceFor(url: string, cause: unknown, startedBy: string): string {
  const code = certificateFault(cause)
  return code === undefined
    ? `No answer from ${url}. Start a server with "${startedBy}", or check the address.`
    : `The certificate of ${url} is not trusted (${code}). NODE_EXTRA_CA_CERTS=FILE names another authority of certificates.`
}

/** The code of Node for a certificate that is refused. */
function certificateFault(error: unknown): string | undefined {
  const cause = error instanceof Error ? (error.cause ?? error) : undefined
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  return /CERT|^ERR_TLS_|^UNABLE_TO_(?:GET|VERIFY)_/.test(code) ? code : undefined
}

/** Reads a refusal: `{detail: text}`, `{detail: {message, ...}}`, `{detail: [issues]}` or any other body. */
export async function readCallError(response: Response): Promise<CallError> {
  const body = parseJson(await readText(response, maxErrorBytes).catch(() => ''))
  const detail = isRecord(body) ? body.detail : undefined
  if (isIssueList(detail)) return new CallError(response.status, detail.map(formatIssue).join('; '), detail)
  const message = detailMessage(detail)
  const words = (message ?? response.statusText) || 'The server gave no reason'
  return new CallError(response.status, words, undefined, message === undefined)
}

function detailMessage(detail: unknown): string | undefined {
  const message = isRecord(detail) ? detail.message : detail
  return typeof message === 'string' ? message : undefined
}

function isIssueList(detail: unknown): detail is ValidationIssue[] {
  return (
    Array.isArray(detail) &&
    detail.length > 0 &&
    detail.every((item) => Array.isArray(item?.loc) && typeof item.msg === 'string')
  )
}

function formatIssue(issue: ValidationIssue): string {
  return issue.loc.length === 0 ? issue.msg : `${issue.loc.join('.')}: ${issue.msg}`
}
