import { parseJsonObject } from '@slipway/shared/json'
import { itemsOf, leaveOut, maxUserText, type Omission } from './omissions.ts'
import {
  isAbout,
  itemOmission,
  namedCalls,
  namedMembers,
  namedOutputLimits,
  namedParameters,
  namedPlaces,
  namedTools,
  parametersOf,
  quotedItems,
} from './read-refusal.ts'
import { reduceSchema } from './reduce-schema.ts'
import {
  blocksOf,
  digestOf,
  isPicture,
  isReasoning,
  type Json,
  lastUserMessage,
  messagesOf,
  toolsOf,
} from './request-body.ts'

/**
 * A request that a server refused is sent again without what it refused. One bad item in a history would
 * otherwise end the conversation: each later request has it again.
 *
 * A refusal names what it is about, or it does not. Steps are tried from the narrowest on: the parameter, the
 * member, the block, the call, the schema, the tool; a group of suspects where nothing is named, the newest
 * first, since what was accepted before is innocent. A step that does not change the refusal is taken back. An
 * accepted group is halved, by requests that are cut at the first piece of their answer, until one item is
 * left. The fifth try leaves out all before the user's last message, the sixth also what is optional.
 *
 * A try costs what a request costs, so there are six at most, and none where no other request helps: a key, a
 * quota, a missing model, a policy.
 */

const maxTries = 6
/** The last tries are the widest. */
const wideTries = 2
const refusalStatuses: readonly (number | undefined)[] = [undefined, 400, 413, 415, 422, 500]

/** The end of the last accepted request of a model: what stands before it is innocent. */
export interface AcceptedRequest {
  readonly messages: number
  readonly last: string | undefined
  readonly parameters: ReadonlySet<string>
  readonly tools: ReadonlySet<string>
}

/** A failure of a model, as far as it says what is refused. */
interface Refusal {
  readonly code: string
  readonly detail: string
  readonly status?: number | undefined
  readonly place?: string | undefined
  readonly isOfAnswer?: true
}

/** Whether leaving something out may help. */
export function isRefusedContent({ code, detail, status, isOfAnswer }: Refusal): boolean {
  if (isOfAnswer) return false
  const isBadRequest = code === 'LLMBadRequestError' || code === 'LLMMalformedConversationHistoryError'
  const isTooLarge = code === 'LLMContextWindowExceedError' && status === 413
  // OpenRouter has no server for the pictures of a request, OpenAI no such item.
  const isMissing = status === 404 && (isAbout(detail, 'vision') || isAbout(detail, 'item'))
  const isOfRequest = refusalStatuses.includes(status) || isMissing
  return (isBadRequest || isTooLarge) && isOfRequest && !isAbout(detail, 'final')
}

/** Whether the model takes no tools at all: they have to be texts of the request. */
export function isRefusalOfTools({ code, detail }: Pick<Refusal, 'code' | 'detail'>): boolean {
  return code === 'LLMBadRequestError' && isAbout(detail, 'tools')
}

/** So many items that are refused alike are left out one by one; then all of their kind are. */
const maxAlike = 3
const requestIds =
  /\breq[_-][\w-]+|request[ _-]?id:? ?[\w-]+|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\b[0-9a-f]{24,}\b/gi

/** Suspects, all of which are left out together at first. */
type Step = readonly Omission[]

export class RefusedRequest {
  /** Of earlier requests. */
  readonly #known: readonly Omission[]
  readonly #accepted: AcceptedRequest | undefined
  #tries = 0
  #kept: Step = []
  #trial: Step = []
  /** A group that is enough, while a smaller one is looked for. */
  #enough: Step | undefined
  #suspects: Step = []
  #text: string | undefined
  #steps: Iterator<Step> | undefined
  #wideSteps: Step[] = []
  readonly #seen: string[] = []
  #given: Json | undefined
  #sent: Json | undefined

  constructor(known: readonly Omission[], accepted: AcceptedRequest | undefined) {
    this.#known = known
    this.#accepted = accepted
  }

  /** Edits the text of a body; the same text when nothing is left out. */
  readonly edit = (text: string): string => {
    const omissions = [...this.#known, ...this.#kept, ...this.#trial]
    this.#given = parseJsonObject(text)
    this.#sent = this.#given && leaveOut(this.#given, omissions)
    return this.#sent === undefined || this.#sent === this.#given ? text : JSON.stringify(this.#sent)
  }

  /** The first refusal. */
  reason = ''

  get hasTried(): boolean {
    return this.#tries > 0
  }

  /** The answer is needed only to know that the request is accepted. */
  get isProbe(): boolean {
    return this.#trial.length > 1 && this.#trial !== this.#enough && this.#tries < maxTries && this.#isGroup
  }

  #isGroup = false

  /** Whether to send the request again, without more than before. */
  refuse(failure: Refusal): boolean {
    const body = this.#sent
    if (body === undefined) return false
    const { code } = failure
    // Its status is no limit.
    const detail = failure.detail.replace(/^HTTP \d+: /, '')
    const isOutput = code === 'LLMContextWindowExceedError' && namedOutputLimits(body, detail).length > 0
    if (!isOutput && !isRefusedContent(failure)) return false
    if (this.#enough !== undefined) return this.#narrow(true)
    this.reason ||= failure.detail
    const text = detail.replace(requestIds, '')
    if (this.#tries === 0 || text !== this.#text) {
      this.#kept = [...this.#kept, ...this.#trial]
      this.#text = text
      const pattern = text.replace(/\d+/g, '#')
      this.#seen.push(pattern)
      const isRepeated = this.#seen.filter((one) => one === pattern).length > maxAlike
      this.#steps = steps(body, { ...failure, detail, isRepeated }, this.#accepted)
      this.#wideSteps = code === 'LLMContextWindowExceedError' ? [] : wideSteps(body)
    }
    this.#trial = []
    return this.#next()
  }

  /** A probe was accepted. */
  accept(): void {
    this.#enough = this.#trial
    this.#suspects = this.#trial
    this.#narrow(false)
  }

  /** What this request has taught; empty when nothing was left out. */
  get learned(): readonly (Omission & { readonly sample: string | undefined })[] {
    return [...this.#kept, ...this.#trial].map((one) => ({
      ...one,
      ...(this.#isOfLastMessage(one) && { value: maxUserText }),
      sample: this.#sampleOf(one),
    }))
  }

  /** It was shortened, and stays so when it is no longer the last. */
  #isOfLastMessage({ kind, name }: Omission): boolean {
    const last = lastUserMessage(this.#given ?? {})
    if (last === undefined || (kind !== 'message' && kind !== 'block')) return false
    return [last, ...blocksOf(last)].some((node) => digestOf(node) === name && !isPicture(node))
  }

  /** What was left out did not help: only what changed the refusal is worth remembering. */
  giveUp(): void {
    this.#trial = []
  }

  get accepted(): AcceptedRequest | undefined {
    const body = this.#sent
    if (body === undefined) return undefined
    const messages = messagesOf(body)
    const last = messages.at(-1)
    return {
      messages: messages.length,
      last: last && digestOf(last),
      parameters: new Set(parametersOf(body)),
      tools: new Set(toolsOf(body).map(({ name }) => name)),
    }
  }

  #next(): boolean {
    const body = this.#given
    if (body === undefined || this.#tries >= maxTries) return false
    const before = JSON.stringify(this.#sent)
    const base = [...this.#known, ...this.#kept]
    const isUseful = (trial: Step) =>
      trial.length > 0 && JSON.stringify(leaveOut(body, [...base, ...trial])) !== before
    while (this.#tries < maxTries - wideTries) {
      const step = this.#steps?.next()
      if (step === undefined || step.done) break
      if (isUseful(step.value)) return this.#try(step.value, step.value.length > 1)
    }
    for (let wide = this.#wideSteps.shift(); wide !== undefined; wide = this.#wideSteps.shift())
      if (isUseful(wide)) return this.#try(wide, false)
    return false
  }

  #try(trial: Step, isGroup: boolean): boolean {
    this.#trial = trial
    this.#isGroup = isGroup
    this.#tries++
    return true
  }

  /** Halves the suspects; one of them is guilty, or they are so together. */
  #narrow(isRefused: boolean): boolean {
    const enough = this.#enough ?? []
    if (isRefused) {
      if (this.#trial === enough) return false
      if (this.#trial === this.#suspects) return this.#try(enough, true)
      this.#suspects = this.#suspects.filter((one) => !this.#trial.includes(one))
    }
    if (this.#tries >= maxTries - 1) return this.#try(enough, true)
    const half = this.#suspects.slice(0, Math.ceil(this.#suspects.length / 2))
    return this.#try(this.#suspects.length === 1 ? this.#suspects : half, true)
  }

  /** The beginning of what is left out. */
  #sampleOf({ kind, name }: Omission): string | undefined {
    if (kind === 'call') return JSON.stringify(name)
    if (kind !== 'block' && kind !== 'message') return undefined
    const messages = messagesOf(this.#given ?? {})
    const node = itemsOf(messages).find((one) => digestOf(one) === name) ?? findMessage(messages, name)
    const text = node && longestText(node)
    return text && JSON.stringify(text).slice(1, 200)
  }
}

function findMessage(messages: readonly Json[], digest: string): Json | undefined {
  return messages.find((message) => digestOf(message) === digest)
}

function longestText(node: unknown): string {
  if (typeof node === 'string') return node.replace(/^data:[\w/+.-]+;base64,/, '')
  if (typeof node !== 'object' || node === null) return ''
  return Object.values(node)
    .map(longestText)
    .reduce((longest, text) => (text.length > longest.length ? text : longest), '')
}

/** What to leave out for a refusal, narrowest first. */
function* steps(
  body: Json,
  { code, detail: text, place = '', status, isRepeated }: Refusal & { readonly isRepeated: boolean },
  accepted: AcceptedRequest | undefined,
): Generator<Step> {
  const named = `${place}\n${text}`
  const messages = messagesOf(body)
  const items = suspects(messages, accepted)
  if (status === 413) return yield* pictureSteps(itemsOf(messages), body)
  if (code === 'LLMContextWindowExceedError') {
    for (const omission of namedOutputLimits(body, text)) yield [omission]
    return
  }
  if (isRepeated && isAbout(named, 'picture')) yield [{ kind: 'pictures', name: '' }]
  if (isRepeated && isAbout(named, 'reasoning')) yield reasoningStep(body)
  for (const find of [namedParameters, namedMembers, namedCalls, namedPlaces, namedTools])
    for (const omission of find(body, named)) yield [omission]
  for (const omission of quotedItems(messages, text)) yield [omission]
  if (isAbout(named, 'vision')) yield [{ kind: 'pictures', name: '' }]
  if (isAbout(named, 'picture')) yield* pictureSteps(items, body)
  if (isAbout(named, 'reasoning')) yield reasoningStep(body)
  if (isAbout(named, 'schema')) yield* toolSteps(body, accepted)
  const isMessage = (item: Json) => messages.includes(item)
  const known = itemsOf(messages).filter((item) => !items.includes(item) && item.role !== 'system')
  const candidates = [...items, ...known].map((item) => itemOmission(item, isMessage(item)))
  // Newest first, in groups that grow.
  for (let at = 0, size = 1; at < candidates.length && size <= 4; at += size, size *= 2)
    yield candidates.slice(at, at + size)
  yield parametersOf(body)
    .filter((name) => !accepted?.parameters.has(name))
    .map((name) => ({ kind: 'parameter', name }) as const)
  yield* toolSteps(body, accepted)
}

/** The newest items of a request, back to the end of the accepted one before it. */
function suspects(messages: readonly Json[], accepted: AcceptedRequest | undefined): readonly Json[] {
  const before = accepted === undefined ? undefined : messages[accepted.messages - 1]
  const isSame = before !== undefined && digestOf(before) === accepted?.last
  const fresh = isSame ? itemsOf(messages.slice(accepted?.messages)) : []
  const found = fresh.length > 0 ? fresh : itemsOf(messages)
  return found.filter(({ role }) => role !== 'system' && role !== 'developer')
}

function* pictureSteps(items: readonly Json[], body: Json): Generator<Step> {
  const found = items.filter(isPicture)
  const pictures = found.length > 0 ? found : itemsOf(messagesOf(body)).filter(isPicture)
  const last = pictures[0]
  if (last !== undefined) yield [itemOmission(last, false)]
  if (pictures.length > 1) yield pictures.map((one) => itemOmission(one, false))
}

function reasoningStep(body: Json): Step {
  const messages = messagesOf(body)
  const items = itemsOf(messages).filter(isReasoning)
  const members = ['reasoning_content', 'reasoning', 'reasoning_details'].filter((name) =>
    messages.some((message) => name in message),
  )
  return [
    ...items.map((item) => itemOmission(item, messages.includes(item))),
    ...members.map((name) => ({ kind: 'member', name }) as const),
  ]
}

/** Schemas that have more than every provider takes, then tools that were not accepted before. */
function* toolSteps(body: Json, accepted: AcceptedRequest | undefined): Generator<Step> {
  const tools = toolsOf(body).filter(({ name }) => !accepted?.tools.has(name))
  const isOdd = ({ schema }: (typeof tools)[number]) =>
    schema !== undefined && JSON.stringify(reduceSchema(schema)) !== JSON.stringify(schema)
  yield tools.filter(isOdd).map(({ name }) => ({ kind: 'schema', name }) as const)
  yield tools.map(({ name }) => ({ kind: 'tool', name }) as const)
}

function wideSteps(body: Json): Step[] {
  const last = lastUserMessage(body)
  const older = last === undefined ? [] : [{ kind: 'older', name: digestOf(last) } as const]
  return [older, [...older, ...optionalStep(body)]]
}

/** All that a request can do without; the tools and the user's last message stay. */
function optionalStep(body: Json): Step {
  const limit = (name: string) => (/max.*tokens/i.test(name) ? { value: 4096 } : {})
  return [
    ...parametersOf(body).map((name) => ({ kind: 'parameter', name, ...limit(name) }) as const),
    ...reasoningStep(body),
    { kind: 'pictures', name: '' },
    ...toolsOf(body).map(({ name }) => ({ kind: 'schema', name }) as const),
  ]
}
