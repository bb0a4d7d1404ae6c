import type { Delta } from '../model.ts'
import type { Finish, Metadata, SdkPart } from '../request/sdk-types.ts'

/** A text or a thought, and what its provider said beside it. */
export interface Piece {
  readonly type: 'text' | 'reasoning'
  text: string
  metadata: Metadata
  /** How many tool calls had begun before it. */
  readonly callsBefore: number
}

export interface Call {
  readonly id: string
  readonly name: string
  /** As received. */
  readonly input: string
  readonly metadata: Metadata
}

/** Takes the parts of one answer in as they come. Nothing is repaired. */
export class Received {
  readonly pieces: Piece[] = []
  readonly calls: Call[] = []
  readonly promptTokenIds: number[] = []
  readonly tokenIds: number[] = []
  /** OpenRouter's details of a thought, pieces joined. */
  readonly details: Record<string, unknown>[] = []
  responseId: string | undefined
  finish: Finish | undefined
  error: unknown
  readonly #open = new Map<string, Piece>()
  readonly #onDelta: ((delta: Delta) => void) | undefined
  #hasBegun = false
  #callsBegun = 0

  constructor(onDelta: ((delta: Delta) => void) | undefined) {
    this.#onDelta = onDelta
  }

  /** Whether a piece of the answer has come: from here on nothing is asked twice. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }

  get isEmpty(): boolean {
    return this.calls.length === 0 && this.pieces.every(({ text }) => text.trim() === '')
  }

  take(part: SdkPart): void {
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start':
        this.#start(part.type === 'text-start' ? 'text' : 'reasoning', part)
        break
      case 'text-delta':
      case 'reasoning-delta':
        this.#delta(part.type === 'text-delta' ? 'text' : 'reasoning', part)
        break
      case 'text-end':
      case 'reasoning-end':
        this.#end(part)
        break
      case 'tool-input-start':
        this.#hasBegun = true
        this.#callsBegun += 1
        break
      case 'tool-call':
        this.#call(part)
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

  #start(type: Piece['type'], part: { id: string; providerMetadata?: Metadata }): void {
    const piece: Piece = { type, text: '', metadata: {}, callsBefore: this.#callsBegun }
    this.pieces.push(piece)
    this.#open.set(part.id, piece)
    merge(piece, part.providerMetadata)
  }

  #delta(type: Piece['type'], part: { id: string; delta: string; providerMetadata?: Metadata }): void {
    if (!this.#open.has(part.id)) this.#start(type, { id: part.id })
    const piece = this.#open.get(part.id)
    if (piece === undefined) return
    merge(piece, part.providerMetadata)
    if (part.delta === '') return
    piece.text += part.delta
    this.#hasBegun = true
    this.#onDelta?.(type === 'text' ? { content: part.delta } : { reasoning_content: part.delta })
  }

  #end(part: { id: string; providerMetadata?: Metadata }): void {
    const piece = this.#open.get(part.id)
    if (piece !== undefined) merge(piece, part.providerMetadata)
    this.#open.delete(part.id)
  }

  #call(part: Extract<SdkPart, { type: 'tool-call' }>): void {
    this.#hasBegun = true
    // A tool that the provider itself ran is nothing that we could answer.
    if (part.providerExecuted === true) return
    const { toolCallId: id, toolName: name, input, providerMetadata = {} } = part
    this.calls.push({ id, name, input, metadata: providerMetadata })
  }

  /** vLLM's token ids; OpenRouter's details of a thought. */
  #raw(value: unknown): void {
    const { prompt_token_ids, choices } = asRecord(value)
    this.promptTokenIds.push(...numbers(prompt_token_ids))
    const choice = asRecord(Array.isArray(choices) ? choices[0] : undefined)
    this.tokenIds.push(...numbers(choice.token_ids))
    const { reasoning_details } = asRecord(choice.delta)
    if (Array.isArray(reasoning_details))
      for (const detail of reasoning_details) this.#detail(asRecord(detail))
  }

  /** Details come in pieces of the same index and type: their texts go together, other members are those of the last. */
  #detail(detail: Record<string, unknown>): void {
    const last = this.details.at(-1)
    if (last === undefined || last.index !== detail.index || last.type !== detail.type) {
      this.details.push({ ...detail })
      return
    }
    for (const [name, member] of Object.entries(detail)) {
      const isText = ['text', 'summary', 'data'].includes(name) && typeof member === 'string'
      if (isText) last[name] = `${last[name] ?? ''}${member}`
      else if (member !== null && member !== undefined) last[name] = member
    }
  }
}

/** Later members win, but nothing is taken away by a null. */
function merge(piece: Piece, metadata: Metadata | undefined): void {
  for (const [key, members] of Object.entries(metadata ?? {})) {
    const known = piece.metadata[key] ?? {}
    const given = Object.entries(members).filter(([, value]) => value !== null && value !== undefined)
    piece.metadata = { ...piece.metadata, [key]: { ...known, ...Object.fromEntries(given) } }
  }
}

function numbers(value: unknown): number[] {
  return Array.isArray(value) ? value.filter((one): one is number => typeof one === 'number') : []
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {} // members are unknown
}
