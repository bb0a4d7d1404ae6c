import type { Fault } from './failures.ts'
import type { Answered, ModelRequest } from './model.ts'

/** What a question comes to before fallbacks. `hasBegun`: pieces of an answer were passed on. */
export type Asked =
  | { readonly kind: 'answer'; readonly answered: Answered }
  | { readonly kind: 'fault'; readonly fault: Fault; readonly hasBegun: boolean }
  | { readonly kind: 'aborted' }

/** Where answers come from: a provider, or a script. */
export interface Source {
  readonly contextWindow: number | undefined
  ask(request: ModelRequest, signal: AbortSignal): Promise<Asked>
}

/** What the world is reached by. */
export interface Surroundings {
  readonly fetch: typeof fetch
  readonly now: () => number
  /** Resolves after a time, or when the signal is aborted. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

export async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise<void>((done) => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      done()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end, { once: true })
  })
}
