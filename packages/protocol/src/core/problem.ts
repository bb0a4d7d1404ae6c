/** Closed list of the caller's mistakes; `http` maps each to a status. */
export type ProblemCode =
  | 'bad_request'
  | 'unauthorized'
  | 'forbidden'
  | 'not_found'
  | 'method_not_allowed'
  | 'conflict'
  | 'busy'
  | 'gone'
  | 'misdirected'
  | 'too_large'
  | 'unsupported_media_type'
  | 'invalid'
  | 'too_many'
  | 'bad_gateway'
  | 'not_implemented'
  | 'storage_full'
  | 'unavailable'
  | 'timeout'
  | 'run_failed'

/** One issue of an input (spec 2.4 ValidationError). */
export interface ValidationIssue {
  /** Where it is: `["query","limit"]`, `["body","content",0,"text"]`, `["body","line 3","kind"]`. */
  readonly loc: readonly (string | number)[]
  readonly msg: string
  /** A stable code: `missing`, `int_parsing`, `greater_than`, `extra_forbidden`, ... */
  readonly type: string
}

/**
 * An error of the caller. `detail` is shown, so it never contains a secret or the refused value. With issues
 * it is a validation error: 422 with the body of spec 2.4 HTTPValidationError.
 */
export class Problem extends Error {
  readonly code: ProblemCode
  readonly issues: readonly ValidationIssue[] | undefined
  /** Members for programs: then `detail` of the answer is an object of these and `message`. */
  readonly members: Readonly<Record<string, unknown>> | undefined
  /** Seconds after which the same request may succeed: the header `Retry-After`. */
  retryAfterSeconds: number | undefined
  /**
   * For programs that look for it: then `detail` of the answer is `Internal Server Error`, and `exception`
   * this.
   */
  exception: string | undefined

  /** The member of the request at fault, as OpenAI's interface names it: `tools[0].type`. */
  param: string | undefined

  constructor(
    code: ProblemCode,
    detail: string,
    issues?: readonly ValidationIssue[],
    members?: Readonly<Record<string, unknown>>,
  ) {
    super(detail)
    this.name = 'Problem'
    this.code = code
    this.issues = issues
    this.members = members
  }
}

/** A failure of the server that says why in the member `exception`, as other servers of the interface do. */
export function serverFailure(
  code: 'unavailable' | 'run_failed' | 'bad_gateway' | 'not_implemented' | 'timeout',
  reason: string,
): Problem {
  const problem = new Problem(code, reason)
  problem.exception = reason
  return problem
}

/** A 400 that names the member of the request: for interfaces that answer so, and not with 422. */
export function refusedMember(param: string, message: string): Problem {
  const problem = new Problem('bad_request', message)
  problem.param = param
  return problem
}

/** A 422 with one issue. */
export function invalidInput(loc: readonly (string | number)[], msg: string, type = 'value_error'): Problem {
  return new Problem('invalid', msg, [{ loc, msg, type }])
}

/** Failures of a file system that pass: the server tries again on its own. */
const fileFailures: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  EFBIG: 'files may not grow',
  EIO: 'the disk reports errors',
  ENXIO: 'the device is gone',
  ENODEV: 'the device is gone',
  ESTALE: 'the device is gone',
  EMFILE: 'too many files are open',
  ENFILE: 'too many files are open',
}
const retryAfterSeconds = 2

/** The disk has no room. */
export function storageFullProblem(cause?: unknown): Problem {
  return retryable('storage_full', 'The disk is full', cause)
}

/** Storage fails at the moment; `detail` says what and why. */
export function storageUnavailableProblem(detail: string, cause?: unknown): Problem {
  return retryable('unavailable', detail, cause)
}

/**
 * Rethrows the error of a file: a full disk as `storage_full`, other failures of the disk as `unavailable`;
 * of a named file every failure.
 */
export function rethrowStorageFailure(error: unknown, path?: string): never {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (code === 'ENOSPC' || code === 'EDQUOT') throw storageFullProblem(error)
  const reason = fileFailures[code] ?? (path === undefined ? undefined : `the system says ${code}`)
  if (reason === undefined) throw error
  throw storageUnavailableProblem(`${path ?? 'Files'} cannot be used: ${reason}`, error)
}

function retryable(code: ProblemCode, detail: string, cause: unknown): Problem {
  const problem = new Problem(code, detail)
  problem.retryAfterSeconds = retryAfterSeconds
  problem.cause = cause
  return problem
}

/** A failure of the disk or the database: later attempts may succeed. */
export function isStorageFailure(error: unknown): error is Problem {
  return error instanceof Problem && error.retryAfterSeconds !== undefined
}
