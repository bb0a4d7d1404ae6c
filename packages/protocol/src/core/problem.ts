/**
 * What a caller did wrong, as a value that may be shown. The list of codes is closed; only `http/app.ts` turns
 * a code into a status.
 */
export type ProblemCode =
  | 'bad_request'
  | 'unauthorized'
  | 'forbidden'
  | 'not_found'
  | 'method_not_allowed'
  | 'conflict'
  | 'busy'
  | 'gone'
  | 'too_large'
  | 'unsupported_media_type'
  | 'invalid'
  | 'too_many'
  | 'bad_gateway'
  | 'storage_full'
  | 'unavailable'
  | 'timeout'
  | 'run_failed'

/** One fault of an input and its place (spec 2.4 ValidationError). */
export interface ValidationIssue {
  /** Where it is: `["query","limit"]`, `["body","content",0,"text"]`, `["body","line 3","kind"]`. */
  readonly loc: readonly (string | number)[]
  readonly msg: string
  /** A stable word for the kind of fault: `missing`, `int_parsing`, `greater_than`, `extra_forbidden`, ... */
  readonly type: string
}

/**
 * The caller's mistake. `detail` is shown as it is, so it never holds a secret or the value that was refused.
 * With `faults` it is a validation error and answers 422 with the body of spec 2.4 HTTPValidationError.
 */
export class Problem extends Error {
  readonly code: ProblemCode
  readonly issues: readonly ValidationIssue[] | undefined
  /** What a program may want to know besides the text: then `detail` of the answer is an object of these and `message`. */
  readonly members: Readonly<Record<string, unknown>> | undefined

  constructor(
    code: ProblemCode,
    detail: string,
    faults?: readonly ValidationIssue[],
    members?: Readonly<Record<string, unknown>>,
  ) {
    super(detail)
    this.name = 'Problem'
    this.code = code
    this.issues = faults
    this.members = members
  }
}

/** A 422 with one fault. */
export function invalidInput(loc: readonly (string | number)[], msg: string, type = 'value_error'): Problem {
  return new Problem('invalid', msg, [{ loc, msg, type }])
}

/** Rethrows the error of a write: a full disk or quota (`ENOSPC`, `EDQUOT`) as a Problem `storage_full`, any other as it is. */
export function rethrowDiskFull(error: unknown): never {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOSPC' || code === 'EDQUOT') throw new Problem('storage_full', 'The disk is full')
  throw error
}
