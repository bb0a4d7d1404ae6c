import { cutFault, emptyFault, type Fault, faultOf, timeoutFault } from '../failures.ts'
import type { Answered, Delta } from '../model.ts'
import type { Touches } from '../request/open-provider.ts'
import type { CallOptions, SdkModel } from '../request/sdk-types.ts'
import { Received } from './accumulator.ts'
import { stopOf } from './assistant-message.ts'
import { Watch } from './idle-timeout.ts'

export type Turn =
  | { readonly kind: 'received'; readonly received: Received; readonly stop: Answered['stop'] }
  /** `hasBegun`: pieces of the answer were passed on, so it must not be asked again. */
  | { readonly kind: 'fault'; readonly fault: Fault; readonly hasBegun: boolean }
  | { readonly kind: 'aborted' }

/** One request and its stream, to the end. Resolves as soon as the signal is aborted, whatever the library is doing. */
export async function runTurn(
  model: SdkModel,
  options: CallOptions,
  setting: {
    readonly signal: AbortSignal
    /** How long nothing may come, milliseconds; undefined: for ever. */
    readonly idleMs: number | undefined
    readonly touches: Touches
    readonly onDelta: ((delta: Delta) => void) | undefined
  },
): Promise<Turn> {
  const { signal, idleMs, touches, onDelta } = setting
  const watch = new Watch(signal, idleMs)
  const received = new Received(onDelta)
  touches.set(watch.signal, watch.touch)
  let fault: Fault | undefined
  let isOpen = false
  try {
    const opened = await watch.race(model.doStream({ ...options, abortSignal: watch.signal }))
    isOpen = true
    if (opened !== undefined) await read(opened.stream, { watch, received })
  } catch (error) {
    fault = isOpen ? streamFault(error) : faultOf(error)
  }
  watch.stop()
  if (signal.aborted) return { kind: 'aborted' }
  if (watch.isTimedOut) fault = timeoutFault(idleMs ?? 0)
  return fault === undefined ? judge(received) : { kind: 'fault', fault, hasBegun: received.hasBegun }
}

async function read(
  stream: Awaited<ReturnType<SdkModel['doStream']>>['stream'],
  { watch, received }: { readonly watch: Watch; readonly received: Received },
): Promise<void> {
  const reader = stream.getReader()
  for (;;) {
    const next = await watch.race(reader.read())
    if (next === undefined || next.done) return
    watch.touch()
    received.take(next.value)
    if (received.error !== undefined) return
  }
}

function judge(received: Received): Turn {
  const { hasBegun, isEmpty, error, finish } = received
  const failed = (fault: Fault): Turn => ({ kind: 'fault', fault, hasBegun })
  if (error !== undefined) return failed(streamFault(error))
  const stop = stopOf(received)
  if (stop === undefined) return failed(cutFault(finish?.finishReason.raw))
  if (stop === 'stop' && isEmpty && !hasBegun) return failed(emptyFault)
  return { kind: 'received', received, stop }
}

/** What goes wrong in an answer that has begun to come and says nothing that is known is an answer that broke off. */
function streamFault(error: unknown): Fault {
  const fault = faultOf(error)
  return fault.code === 'LLMError' ? { ...cutFault(undefined), detail: fault.detail } : fault
}
