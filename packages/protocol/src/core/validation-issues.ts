import type * as z from 'zod'
import { Problem, type ValidationIssue } from './problem.ts'

type ZodIssue = z.core.$ZodIssue
type Path = readonly (string | number)[]
type IssueText = readonly [type: string, msg: string]

/** What values of a type are read with. */
export type Schema<T> = z.ZodType<T>

/** Further issues are dropped. */
const maxIssues = 100

/**
 * The issues of a value that a schema refused (spec 2.4 ValidationError). `prefix` precedes each `loc`.
 * Members that `input` does not have are `missing`. No `msg` contains a part of the input but the name of an
 * unknown kind.
 */
export function validationIssues(error: z.core.$ZodError, prefix: Path, input: unknown): ValidationIssue[] {
  const issues: ValidationIssue[] = []
  for (const issue of error.issues) {
    if (issues.length < maxIssues) issues.push(...convertIssue(issue, [], input, maxIssues - issues.length))
  }
  return issues.map((issue) => ({ ...issue, loc: [...prefix, ...issue.loc] }))
}

/** Parses a value; throws a Problem `invalid` with all issues, each `loc` after `locPrefix`. */
export function parseOrThrow<T>(
  schema: Schema<T>,
  value: unknown,
  locPrefix: Path,
  detail = 'It is not valid',
): T {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new Problem('invalid', detail, validationIssues(result.error, locPrefix, value))
}

function convertIssue(issue: ZodIssue, base: Path, input: unknown, limit: number): ValidationIssue[] {
  const loc = [...base, ...issue.path.map((step) => (typeof step === 'number' ? step : String(step)))]
  if (issue.code === 'unrecognized_keys') {
    const [type, msg]: IssueText = ['extra_forbidden', 'Extra inputs are not permitted']
    return issue.keys.slice(0, limit).map((key) => ({ loc: [...loc, key], msg, type }))
  }
  const isTyped =
    issue.code === 'invalid_type' || issue.code === 'invalid_value' || issue.code === 'invalid_union'
  if (isTyped && isMissing(input, loc)) return [{ loc, msg: 'Field required', type: 'missing' }]
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    return closestBranch(issue.errors).flatMap((inner) => convertIssue(inner, loc, input, limit))
  }
  const [type, msg] = describeIssue(issue, valueAt(input, loc))
  return [{ loc, msg, type }]
}

/** The intended branch of an untagged union: no constant differs, then fewest issues. */
function closestBranch(branches: readonly (readonly ZodIssue[])[]): readonly ZodIssue[] {
  const distance = (issues: readonly ZodIssue[]) =>
    issues.length + (issues.some((issue) => issue.code === 'invalid_value') ? 1000 : 0)
  return branches.reduce((best, branch) => (distance(branch) < distance(best) ? branch : best))
}

function isMissing(input: unknown, loc: Path): boolean {
  let value = input
  for (const step of loc) {
    if (typeof value !== 'object' || value === null) return false
    if (!Object.hasOwn(value, step)) return true
    value = Reflect.get(value, step)
  }
  return value === undefined && (loc.length === 0 || input !== undefined)
}

function valueAt(input: unknown, loc: Path): unknown {
  return loc.reduce((value, step) => (isObject(value) ? Reflect.get(value, step) : undefined), input)
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** A kind is the name of a class; any other text may be a secret and is not shown. */
function unknownKind(value: unknown): string {
  const isName = typeof value === 'string' && /^[A-Z][A-Za-z]{2,63}$/.test(value)
  return isName ? `Unknown kind '${value}'` : 'Unknown kind'
}

function describeIssue(issue: Exclude<ZodIssue, { code: 'unrecognized_keys' }>, value: unknown): IssueText {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.expected === 'int' && typeof value === 'number')
        return ['int_from_float', 'Input should be a valid integer, got a number with a fractional part']
      return typeIssues[issue.expected] ?? ['type_error', `Input should be of type ${issue.expected}`]
    case 'invalid_value':
      return [
        issue.values.length === 1 ? 'literal_error' : 'enum',
        `Input should be ${joinAlternatives(issue.values)}`,
      ]
    case 'invalid_union': {
      const options = 'options' in issue && Array.isArray(issue.options) ? issue.options : []
      const expected = `Input should be ${joinAlternatives(options)}`
      return [
        'union_tag_invalid',
        issue.path.at(-1) === 'kind' ? `${unknownKind(value)}. ${expected}` : expected,
      ]
    }
    case 'too_small':
      return describeBound('too_small', issue.origin, issue.minimum, issue.inclusive)
    case 'too_big':
      return describeBound('too_big', issue.origin, issue.maximum, issue.inclusive)
    case 'invalid_format':
      return formatIssues[issue.format] ?? ['string_pattern_mismatch', issue.message]
    case 'invalid_key':
      return [
        issue.issues[0]?.code === 'too_big' ? 'string_too_long' : 'string_pattern_mismatch',
        issue.issues[0]?.message ?? 'The name of this member is not allowed',
      ]
    case 'not_multiple_of':
      return ['multiple_of', `Input should be a multiple of ${issue.divisor}`]
    case 'custom':
      return [typeof issue.params?.type === 'string' ? issue.params.type : 'value_error', issue.message]
    default:
      return ['value_error', issue.message]
  }
}

const bounds = {
  too_small: { short: 'short', least: 'least', comparison: 'greater' },
  too_big: { short: 'long', least: 'most', comparison: 'less' },
}

function describeBound(
  code: keyof typeof bounds,
  origin: string,
  limit: number | bigint,
  inclusive: boolean | undefined,
): IssueText {
  const { short, least, comparison } = bounds[code]
  if (origin === 'string')
    return [`string_too_${short}`, `String should have at ${least} ${pluralize(limit, 'character')}`]
  if (origin === 'array') return [`too_${short}`, `List should have at ${least} ${pluralize(limit, 'item')}`]
  return inclusive === false
    ? [`${comparison}_than`, `Input should be ${comparison} than ${limit}`]
    : [`${comparison}_than_equal`, `Input should be ${comparison} than or equal to ${limit}`]
}

function pluralize(number: number | bigint, noun: string): string {
  return `${number} ${noun}${Number(number) === 1 ? '' : 's'}`
}

function joinAlternatives(values: readonly unknown[]): string {
  const quoted = values.map((value) => (typeof value === 'string' ? `'${value}'` : String(value)))
  const last = quoted.pop() ?? ''
  return quoted.length === 0 ? last : `${quoted.join(', ')} or ${last}`
}

const typeIssues: Readonly<Record<string, IssueText>> = {
  string: ['string_type', 'Input should be a valid string'],
  int: ['int_type', 'Input should be a valid integer'],
  number: ['float_type', 'Input should be a valid number'],
  boolean: ['bool_type', 'Input should be a valid boolean'],
  array: ['list_type', 'Input should be a valid list'],
  record: ['dict_type', 'Input should be a valid dictionary'],
  object: ['model_type', 'Input should be an object'],
}

const formatIssues: Readonly<Record<string, IssueText>> = {
  datetime: ['datetime_parsing', 'Input should be a valid date-time'],
  uuid: ['uuid_parsing', 'Input should be a valid UUID'],
  int: ['int_parsing', 'Input should be a valid integer, unable to parse string as an integer'],
  bool: ['bool_parsing', 'Input should be a valid boolean, unable to interpret input'],
}
