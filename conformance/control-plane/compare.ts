import { isRecord } from '@slipway/shared/json'

/** What a server answered to one request. */
export interface Answer {
  readonly status: number
  /** The parsed JSON; the text where it is not JSON. */
  readonly body: unknown
}

/** One place where two answers differ. */
export interface Difference {
  /** `status`, or the path of a member: `.items[].id`. */
  readonly place: string
  readonly reference: string
  readonly slipway: string
}

/** Members that hold prose, or what each server chooses: of them the type is compared. */
const freeMembers =
  /\.(?:id|[a-z_]+_id|message|msg|detail|error|errors\[\]|label|description|[a-z_]+_at|uptime|version)$/

/**
 * The differences of two answers to the same request: the status; where it is the same, members with their
 * types, null and absent apart, and the values except those of `freeMembers`. A member that Slipway alone has
 * is no difference: clients of the reference do not read it (`listAdditions`). With `isShape` values are not
 * compared, and of arrays the first item.
 */
export function compareAnswers(reference: Answer, slipway: Answer, isShape = false): Difference[] {
  if (reference.status !== slipway.status) {
    const [there, here] = [reference, slipway].map(({ status, body }) => `${status} ${show(body)}`)
    return [{ place: 'status', reference: there ?? '', slipway: here ?? '' }]
  }
  const all = [...compareValues('', reference.body, slipway.body, isShape)]
  return all.filter((each) => !isAddition(each))
}

/** The places of members that Slipway has and the reference does not. */
export function listAdditions(reference: Answer, slipway: Answer): string[] {
  if (reference.status !== slipway.status || slipway.status >= 400) return []
  return [...compareValues('', reference.body, slipway.body, false)]
    .filter(isAddition)
    .map(({ place }) => place)
}

const isAddition = ({ reference }: Difference) => reference === 'absent'

function* compareValues(
  place: string,
  reference: unknown,
  slipway: unknown,
  isShape: boolean,
): Generator<Difference> {
  const [there, here] = [typeName(reference), typeName(slipway)]
  const isFree = isShape || freeMembers.test(place)
  if (there !== here) yield { place, reference: show(reference), slipway: show(slipway) }
  else if (isRecord(reference) && isRecord(slipway)) {
    for (const name of new Set([...Object.keys(reference), ...Object.keys(slipway)]))
      yield* compareValues(`${place}.${name}`, reference[name], slipway[name], isShape)
  } else if (Array.isArray(reference) && Array.isArray(slipway)) {
    const isLonger = reference.length !== slipway.length
    if (isLonger && (!isShape || reference.length === 0 || slipway.length === 0))
      yield { place: `${place}.length`, reference: `${reference.length}`, slipway: `${slipway.length}` }
    const compared = Math.min(reference.length, slipway.length, isShape ? 1 : Number.POSITIVE_INFINITY)
    for (let index = 0; index < compared; index += 1)
      yield* compareValues(`${place}[]`, reference[index], slipway[index], isShape)
  } else if (!isFree && reference !== slipway)
    yield { place, reference: show(reference), slipway: show(slipway) }
}

function typeName(value: unknown): string {
  if (value === undefined) return 'absent'
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

function show(value: unknown): string {
  const text = value === undefined ? 'absent' : JSON.stringify(value)
  return text.length > 80 ? `${text.slice(0, 79)}…` : text
}
