import { AnswerTooLongError } from '@slipway/shared/async'
import { asRecord, isRecord } from '@slipway/shared/json'
import type { ModelDelta } from '../model.ts'
import type { SdkFinish, SdkMetadata, SdkStreamPart } from '../request/sdk-types.ts'
import { splitAtLooseEnding, ThoughtSplitter } from './thought-splitter.ts'

/** A text or reasoning part with its provider metadata. */
export interface ResponsePart {
  readonly type: 'text' | 'reasoning'
  text: string
  metadata: SdkMetadata
  /** Number of tool calls that began before it. */
  readonly callsBefore: number
}

export interface ReceivedCall {
  readonly id: string
  readonly name: string
  /** As received. */
  readonly input: string
  readonly metadata: SdkMetadata
}

/** Longest reply, in characters: more than the output limit of any model. */
const maxReplyLength = 32 * 1024 * 1024
/** What a part without a text counts. */
const partLength = 256

/** Collects the parts of one response as they arrive, without repairs. */
export class ResponseAccumulator {
  readonly parts: ResponsePart[] = []
  readonly calls: ReceivedCall[] = []
  /** Addresses and titles of pages that a search of the provider found and the text cites. */
  readonly sources = new Map<string, string>()
  readonly promptTokenIds: number[] = []
  readonly tokenIds: number[] = []
  /** OpenRouter's reasoning details, chunks joined. */
  readonly reasoningDetails: Record<string, unknown>[] = []
  /** In which the server sent reasoning. */
  reasoningMember: string | undefined
  /** Gemini's signatures of calls in LiteLLM's members, by the index of the call. */
  readonly callSignatures = new Map<number, string>()
  responseId: string | undefined
  finish: SdkFinish | undefined
  error: unknown
  /** A part of the reply has arrived. */
  hasBegun = false
  #argumentsText = ''
  readonly #open = new Map<string, ResponsePart>()
  readonly #onDelta: ((delta: ModelDelta) => void) | undefined
  #callsBegun = 0
  #length = 0

  readonly #splitter: ThoughtSplitter | undefined

  /** `hasLooseThoughts`: the server may leave thoughts in the text. */
  constructor(onDelta: ((delta: ModelDelta) => void) | undefined, hasLooseThoughts = false) {
    this.#onDelta = onDelta
    this.#splitter = hasLooseThoughts ? new ThoughtSplitter() : undefined
  }

  get isEmpty(): boolean {
    return this.calls.length === 0 && this.parts.every(({ text }) => text.trim() === '')
  }

  /** Everything of the reply that has arrived, for an estimate of its tokens. */
  get receivedText(): string {
    return this.parts.map(({ text }) => text).join('') + this.#argumentsText
  }

  /** Throws an `AnswerTooLongError` when the whole reply is too long. */
  add(part: SdkStreamPart): void {
    if (part.type !== 'raw') this.#length += 'delta' in part ? part.delta.length : partLength
    if (this.#length > maxReplyLength) throw new AnswerTooLongError(maxReplyLength)
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start':
        this.#start(part.type === 'text-start' ? 'text' : 'reasoning', part)
        break
      case 'text-delta':
      case 'reasoning-delta':
        if (part.type === 'text-delta') this.#text(part)
        else this.#delta('reasoning', part)
        break
      case 'text-end':
      case 'reasoning-end':
        if (part.type === 'text-end') this.#pieces(part, this.#splitter?.end() ?? [])
        this.#end(part)
        break
      case 'tool-input-start':
        this.hasBegun = true
        if (part.providerExecuted !== true) this.#callsBegun += 1
        break
      case 'tool-input-delta':
        this.#argumentsText += part.delta
        break
      case 'tool-call':
        this.#call(part)
        break
      case 'source':
        if (part.sourceType === 'url') this.sources.set(part.url, part.title ?? part.url)
        break
      case 'response-metadata':
        this.responseId ??= part.id
        break
      case 'raw':
        this.#raw(part.rawValue)
        break
      case 'error':
        this.error ??= part.error ?? new Error('an error without a reason')
        break
      case 'finish':
        this.finish = part
        break
    }
  }

  #start(type: ResponsePart['type'], part: { id: string; providerMetadata?: SdkMetadata }): void {
    const piece: ResponsePart = { type, text: '', metadata: {}, callsBefore: this.#callsBegun }
    this.parts.push(piece)
    this.#open.set(part.id, piece)
    mergeMetadata(piece, part.providerMetadata)
  }

  #text(part: { id: string; delta: string; providerMetadata?: SdkMetadata }): void {
    if (this.#splitter === undefined) this.#delta('text', part)
    else this.#pieces(part, this.#splitter.add(part.delta))
  }

  #pieces(part: { id: string; providerMetadata?: SdkMetadata }, pieces: ReturnType<ThoughtSplitter['add']>) {
    for (const { type, text } of pieces) {
      const id = type === 'text' ? part.id : `${part.id}-thought`
      this.#delta(type, { ...part, id, delta: text })
    }
  }

  #delta(
    type: ResponsePart['type'],
    part: { id: string; delta: string; providerMetadata?: SdkMetadata },
  ): void {
    if (!this.#open.has(part.id)) this.#start(type, { id: part.id })
    const piece = this.#open.get(part.id)
    if (piece === undefined) return
    mergeMetadata(piece, part.providerMetadata)
    if (part.delta === '') return
    piece.text += part.delta
    this.hasBegun = true
    this.#onDelta?.(type === 'text' ? { content: part.delta } : { reasoning_content: part.delta })
  }

  #end(part: { id: string; providerMetadata?: SdkMetadata }): void {
    const piece = this.#open.get(part.id)
    if (piece !== undefined) mergeMetadata(piece, part.providerMetadata)
    this.#open.delete(part.id)
    if (piece?.type === 'text' && this.#splitter !== undefined) this.#splitLoose(piece)
  }

  /** Its deltas were those of a text; the message has a thought and a text. */
  #splitLoose(piece: ResponsePart): void {
    const split = splitAtLooseEnding(piece.text)
    if (split === undefined) return
    const { thought, answer } = split
    const both = [
      { ...piece, type: 'reasoning' as const, text: thought },
      { ...piece, text: answer },
    ]
    this.parts.splice(this.parts.indexOf(piece), 1, ...both)
  }

  #call(part: Extract<SdkStreamPart, { type: 'tool-call' }>): void {
    this.hasBegun = true
    // A tool that the provider ran itself needs no result.
    if (part.providerExecuted === true) return
    const { toolCallId: id, toolName: name, input, providerMetadata = {} } = part
    this.calls.push({ id, name, input, metadata: providerMetadata })
  }

  /** What the library drops of a chunk. */
  #raw(value: unknown): void {
    const { prompt_token_ids, choices, error } = asRecord(value)
    // The library keeps its text alone.
    if (isText(error) || isRecord(error)) this.error ??= { data: value }
    this.promptTokenIds.push(...numbers(prompt_token_ids))
    const choice = asRecord(Array.isArray(choices) ? choices[0] : undefined)
    const { content } = asRecord(choice.logprobs)
    const scored: readonly unknown[] = Array.isArray(content) ? content : []
    this.tokenIds.push(...numbers(choice.token_ids ?? scored.map((token) => asRecord(token).id)))
    const { reasoning_details, tool_calls, ...delta } = asRecord(choice.delta)
    if (Array.isArray(reasoning_details))
      for (const detail of reasoning_details) this.#detail(asRecord(detail))
    this.reasoningMember ??= ['reasoning_content', 'reasoning'].find((name) => isText(delta[name]))
    for (const call of Array.isArray(tool_calls) ? tool_calls.map(asRecord) : []) {
      const { thought_signature } = asRecord(call.provider_specific_fields)
      if (isText(thought_signature)) this.callSignatures.set(Number(call.index ?? 0), thought_signature)
    }
  }

  /** Joins the texts of chunks with the same index and type; their other members are those of the last. */
  #detail(detail: Record<string, unknown>): void {
    const last = this.reasoningDetails.at(-1)
    if (last === undefined || last.index !== detail.index || last.type !== detail.type) {
      this.reasoningDetails.push({ ...detail })
      return
    }
    for (const [name, member] of Object.entries(detail)) {
      const isText = ['text', 'summary', 'data'].includes(name) && typeof member === 'string'
      if (isText) last[name] = `${last[name] ?? ''}${member}`
      else if (member !== null && member !== undefined) last[name] = member
    }
  }
}

/** Later members win, except null. */
function mergeMetadata(piece: ResponsePart, metadata: SdkMetadata | undefined): void {
  for (const [key, members] of Object.entries(metadata ?? {})) {
    const known = piece.metadata[key] ?? {}
    const defined = Object.entries(members).filter(([, value]) => value !== null && value !== undefined)
    piece.metadata = { ...piece.metadata, [key]: { ...known, ...Object.fromEntries(defined) } }
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

function numbers(value: unknown): number[] {
  return Array.isArray(value) ? value.filter((one): one is number => typeof one === 'number') : []
}
