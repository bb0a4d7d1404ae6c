import type { Clock } from '@slipway/shared/time'
import {
  classifyFailure,
  emptyReplyFailure,
  fullWindowFailure,
  type ProviderFailure,
  timeoutFailure,
  truncatedStreamFailure,
} from '../failures.ts'
import type { ModelReply, ModelRequest } from '../model.ts'
import { IdleTimeout } from '../request/idle-timeout.ts'
import type { SdkCallOptions, SdkModel } from '../request/sdk-types.ts'
import { ResponseAccumulator } from './accumulator.ts'
import { stopMeaning } from './stop-reasons.ts'

export type StreamResult =
  | { readonly kind: 'response'; readonly response: ResponseAccumulator; readonly stop: ModelReply['stop'] }
  | { readonly kind: 'failure'; readonly failure: ProviderFailure; readonly response: ResponseAccumulator }
  /** Of a probe, which is cut at the first piece of its reply. */
  | { readonly kind: 'accepted'; readonly response: ResponseAccumulator }
  | { readonly kind: 'aborted'; readonly response: ResponseAccumulator }

/** Milliseconds without data until it fails; undefined: no limit. */
export interface StreamLimits {
  /** Before the first part of the reply. */
  readonly idleMs: number | undefined
  /** Afterwards. */
  readonly stallMs: number | undefined
}

interface StreamOptions extends StreamLimits {
  readonly clock: Clock
  readonly onDelta: ModelRequest['onDelta']
  /** Edits the body of the request. */
  readonly edit?: (body: string) => string
  /** Only whether the server accepts the request is wanted. */
  readonly isProbe?: boolean
  /** The server may leave thoughts in the text. */
  readonly hasLooseThoughts?: boolean
}

/** Sends one request and reads its stream. Resolves as soon as the signal aborts. */
export async function streamResponse(
  model: SdkModel,
  options: SdkCallOptions,
  { clock, onDelta, edit, isProbe = false, hasLooseThoughts, ...limits }: StreamOptions,
  signal: AbortSignal,
): Promise<StreamResult> {
  const idleTimeout = new IdleTimeout(signal, limits.idleMs, clock)
  idleTimeout.edit = edit
  const response = new ResponseAccumulator(isProbe ? undefined : onDelta, hasLooseThoughts)
  let failure: ProviderFailure | undefined
  try {
    const opened = await idleTimeout.race(model.doStream({ ...options, abortSignal: idleTimeout.signal }))
    const reader = opened?.stream.getReader()
    while (reader !== undefined && response.error === undefined) {
      const next = await idleTimeout.race(reader.read())
      if (next === undefined || next.done) break
      idleTimeout.touch()
      response.add(next.value)
      if (isProbe && response.hasBegun) break
      if (response.hasBegun) idleTimeout.limit(limits.stallMs)
    }
  } catch (error) {
    failure = idleTimeout.hasResponse ? streamFailure(error) : classifyFailure(error)
  }
  idleTimeout.stop()
  if (signal.aborted) return { kind: 'aborted', response }
  if (idleTimeout.isTimedOut) failure = timeoutFailure(idleTimeout.limitMs ?? 0)
  if (isProbe && failure === undefined && response.hasBegun) return { kind: 'accepted', response }
  return failure === undefined ? toStreamResult(response) : { kind: 'failure', failure, response }
}

function toStreamResult(response: ResponseAccumulator): StreamResult {
  const { hasBegun, isEmpty, error, finish } = response
  const failed = (failure: ProviderFailure): StreamResult => ({ kind: 'failure', failure, response })
  if (error !== undefined) return failed(streamFailure(error))
  const stop = stopMeaning(finish?.finishReason, response.calls.length > 0)
  if (stop === 'window') return failed(fullWindowFailure)
  if (stop === undefined || stop === 'broken') return failed(truncatedStreamFailure(finish?.finishReason.raw))
  if (stop === 'stop' && isEmpty && !hasBegun) return failed(emptyReplyFailure)
  return { kind: 'response', response, stop }
}

/** An unknown error during the stream counts as a truncated stream. */
function streamFailure(error: unknown): ProviderFailure {
  const failure = classifyFailure(error)
  return failure.code === 'LLMError'
    ? { ...truncatedStreamFailure(undefined), detail: failure.detail }
    : failure
}
