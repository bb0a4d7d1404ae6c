import {
  classifyFailure,
  emptyReplyFailure,
  type ProviderFailure,
  timeoutFailure,
  truncatedStreamFailure,
} from '../failures.ts'
import type { ModelDelta, ModelReply } from '../model.ts'
import type { ActivityCallbacks } from '../request/open-provider.ts'
import type { SdkCallOptions, SdkModel } from '../request/sdk-types.ts'
import { ResponseAccumulator } from './accumulator.ts'
import { stopReason } from './assistant-message.ts'
import { IdleTimeout } from './idle-timeout.ts'

export type StreamResult =
  | { readonly kind: 'response'; readonly response: ResponseAccumulator; readonly stop: ModelReply['stop'] }
  /** `hasBegun`: deltas were passed on, so the request must not be repeated. */
  | { readonly kind: 'failure'; readonly failure: ProviderFailure; readonly hasBegun: boolean }
  | { readonly kind: 'aborted' }

/** Sends one request and reads its stream. Resolves as soon as the signal aborts. */
export async function streamResponse(
  model: SdkModel,
  options: SdkCallOptions,
  setting: {
    readonly signal: AbortSignal
    /** Milliseconds without data until it fails; undefined: no limit. */
    readonly idleMs: number | undefined
    readonly activity: ActivityCallbacks
    readonly onDelta: ((delta: ModelDelta) => void) | undefined
  },
): Promise<StreamResult> {
  const { signal, idleMs, activity, onDelta } = setting
  const idleTimeout = new IdleTimeout(signal, idleMs)
  const response = new ResponseAccumulator(onDelta)
  activity.set(idleTimeout.signal, idleTimeout.touch)
  let failure: ProviderFailure | undefined
  let isOpen = false
  try {
    const opened = await idleTimeout.race(model.doStream({ ...options, abortSignal: idleTimeout.signal }))
    isOpen = true
    if (opened !== undefined) await readStream(opened.stream, { watch: idleTimeout, received: response })
  } catch (error) {
    failure = isOpen ? streamFailure(error) : classifyFailure(error)
  }
  idleTimeout.stop()
  if (signal.aborted) return { kind: 'aborted' }
  if (idleTimeout.isTimedOut) failure = timeoutFailure(idleMs ?? 0)
  return failure === undefined
    ? toStreamResult(response)
    : { kind: 'failure', failure, hasBegun: response.hasBegun }
}

async function readStream(
  stream: Awaited<ReturnType<SdkModel['doStream']>>['stream'],
  {
    watch: idleTimeout,
    received: response,
  }: { readonly watch: IdleTimeout; readonly received: ResponseAccumulator },
): Promise<void> {
  const reader = stream.getReader()
  for (;;) {
    const next = await idleTimeout.race(reader.read())
    if (next === undefined || next.done) return
    idleTimeout.touch()
    response.add(next.value)
    if (response.error !== undefined) return
  }
}

function toStreamResult(response: ResponseAccumulator): StreamResult {
  const { hasBegun, isEmpty, error, finish } = response
  const failed = (failure: ProviderFailure): StreamResult => ({ kind: 'failure', failure, hasBegun })
  if (error !== undefined) return failed(streamFailure(error))
  const stop = stopReason(response)
  if (stop === undefined) return failed(truncatedStreamFailure(finish?.finishReason.raw))
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
