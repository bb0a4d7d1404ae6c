import { randomBytes } from 'node:crypto'
import type { Message } from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import type { Clock } from '@slipway/shared/time'
import type { ProviderFailure } from '../failures.ts'
import {
  type ModelDelta,
  type ModelFailureCode,
  type ModelReply,
  type ModelRequest,
  modelFailureCodes,
} from '../model.ts'
import {
  type ModelSource,
  type SourceOptions,
  type SourceResult,
  sleepUntilAborted,
} from '../model-source.ts'
import { countTokens } from '../tokens.ts'
import { buildReply } from './build-reply.ts'

/**
 * One turn of a script; all members are optional. `text` (or `thought`) is sent word by word, `delta_ms`
 * apart, `delay_ms` after the request; `error` fails instead. With `break_after` the stream first breaks
 * after that many words and begins again. Entries with `side: true` reply to requests beside the agent loop
 * (titles, summaries, judgements) alone.
 */
interface ScriptEntry {
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
  readonly delayMs: number
  readonly deltaMs: number
  readonly error: { readonly code: ModelFailureCode; readonly detail: string } | undefined
  readonly breakAfter: number
  readonly isRefusal: boolean
  readonly isSide: boolean
  readonly usage: Record<string, unknown>
}

interface IndexedEntry {
  readonly entry: ScriptEntry
  readonly index: string
}

const scriptEndEntry = readEntry({ text: 'The script is over.' })
const defaultSideEntry = readEntry({ text: 'Scripted answer.' })
const permanentCodes: readonly string[] = [
  'LLMBadRequestError',
  'LLMContextWindowExceedError',
  'LLMMalformedConversationHistoryError',
  'LLMContentPolicyViolationError',
]

/**
 * A model that replies from `llm.script`, from the entry after the number of replies in its first request on.
 */
export class ScriptedModelSource implements ModelSource {
  readonly #options: SourceOptions
  readonly #turns: readonly ScriptEntry[]
  readonly #sides: readonly ScriptEntry[]
  #next: number | undefined
  #nextSide = 0

  constructor(options: SourceOptions) {
    this.#options = options
    const entries = (options.llm.script ?? []).map(readEntry)
    this.#turns = entries.filter(({ isSide }) => !isSide)
    this.#sides = entries.filter(({ isSide }) => isSide)
  }

  get contextWindow(): number | undefined {
    return this.#options.llm.max_input_tokens
  }

  async generate(request: ModelRequest, signal: AbortSignal): Promise<SourceResult> {
    const { clock } = this.#options.environment
    const started = clock.now()
    const next = this.#nextEntry(request)
    const { entry } = next
    await sleepUntilAborted(clock, entry.delayMs, signal)
    if (signal.aborted) return { kind: 'aborted' }
    if (entry.error !== undefined) return { kind: 'failure', failure: scriptedFailure(entry.error) }
    if (entry.breakAfter > 0) {
      await emitDeltas(entry, { clock, onDelta: request.onDelta, count: entry.breakAfter }, signal)
      if (!signal.aborted) request.onReset?.(this.#toReply(next, request, started))
    }
    await emitDeltas(entry, { clock, onDelta: request.onDelta }, signal)
    if (signal.aborted) return { kind: 'aborted' }
    return { kind: 'reply', reply: this.#toReply(next, request, started) }
  }

  #nextEntry(request: ModelRequest): IndexedEntry {
    if (request.tools.length === 0 || request.toolChoice === 'none') {
      const at = this.#nextSide++
      return { entry: this.#sides[at] ?? defaultSideEntry, index: `side-${at}` }
    }
    this.#next ??= request.messages.filter(({ role }) => role === 'assistant').length
    const at = this.#next++
    return { entry: this.#turns[at] ?? scriptEndEntry, index: String(at) }
  }

  #toReply({ entry, index }: IndexedEntry, request: ModelRequest, started: number): ModelReply {
    const { llm, secrets, environment } = this.#options
    const nowMs = environment.clock.now()
    // The index alone would repeat in conversations with different beginnings.
    const id = `${index}-${randomBytes(3).toString('hex')}`
    const message = assistantMessage(entry, id)
    const count = (name: string, otherwise = 0) => {
      const value = entry.usage[name]
      return typeof value === 'number' ? value : otherwise
    }
    return buildReply({
      llm,
      secrets,
      request,
      responseId: `scripted-${id}`,
      message,
      tokens: {
        input: count('prompt_tokens', countTokens(request.messages)),
        output: count('completion_tokens', countTokens([message])),
        cacheRead: count('cache_read_tokens'),
        cacheWrite: count('cache_write_tokens'),
        reasoning: count('reasoning_tokens'),
      },
      contextWindow: this.contextWindow,
      cost: 0,
      latencyMs: nowMs - started,
      nowMs,
      stop: entry.isRefusal ? 'refusal' : entry.calls.length > 0 ? 'tool_calls' : 'stop',
    })
  }
}

async function emitDeltas(
  entry: ScriptEntry,
  options: {
    readonly clock: Clock
    readonly onDelta: ((delta: ModelDelta) => void) | undefined
    readonly count?: number
  },
  signal: AbortSignal,
) {
  const deltas: ModelDelta[] = [
    ...words(entry.reasoning).map((reasoning_content) => ({ reasoning_content })),
    ...words(entry.text).map((content) => ({ content })),
  ]
  for (const [at, delta] of deltas.slice(0, options.count).entries()) {
    if (at > 0 && entry.deltaMs > 0) await sleepUntilAborted(options.clock, entry.deltaMs, signal)
    if (signal.aborted) return
    options.onDelta?.(delta)
  }
}

/** The words of a text, each with the blanks behind it. */
function words(text: string): string[] {
  return text.match(/\s*\S+\s*|\s+/g) ?? []
}

function assistantMessage({ text, reasoning, calls }: ScriptEntry, id: string): Message {
  const tool_calls = calls.map((call, at) => ({
    id: `call-${id}-${at}`,
    ...call,
    origin: 'completion' as const,
  }))
  return {
    role: 'assistant',
    content: text === '' ? [] : [{ type: 'text', text, cache_prompt: false }],
    ...(calls.length === 0 ? {} : { tool_calls }),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    thinking_blocks: [],
  }
}

function scriptedFailure({ code, detail }: NonNullable<ScriptEntry['error']>): ProviderFailure {
  return { code, detail, isRetryable: !permanentCodes.includes(code) }
}

/** Reads an entry; ignores members of a wrong type. */
function readEntry(value: unknown): ScriptEntry {
  const entry = asRecord(typeof value === 'string' ? { text: value } : value)
  const error = asRecord(entry.error)
  return {
    text: asText(entry.text) || asText(entry.thought),
    reasoning: asText(entry.reasoning),
    calls: Array.isArray(entry.tool_calls) ? entry.tool_calls.map(readCall) : [],
    delayMs: asNumber(entry.delay_ms),
    deltaMs: asNumber(entry.delta_ms),
    error: entry.error === undefined || entry.error === null ? undefined : readError(error),
    breakAfter: asNumber(entry.break_after),
    isRefusal: entry.refusal === true,
    isSide: entry.side === true,
    usage: asRecord(entry.usage),
  }
}

function readCall(value: unknown): ScriptEntry['calls'][number] {
  const call = asRecord(value)
  const args = call.arguments
  return {
    name: asText(call.name),
    arguments: typeof args === 'string' ? args : JSON.stringify(args ?? {}),
  }
}

function readError(error: Record<string, unknown>): NonNullable<ScriptEntry['error']> {
  return {
    code: modelFailureCodes.find((code) => code === error.code) ?? 'LLMError',
    detail: asText(error.detail) || 'The script says that this fails.',
  }
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function asNumber(value: unknown): number {
  return typeof value === 'number' && value > 0 ? value : 0
}
