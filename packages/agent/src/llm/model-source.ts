import type { ProviderFailure } from './failures.ts'
import type { ModelReply, ModelRequest } from './model.ts'

/** What a question comes to before fallbacks. `hasBegun`: pieces of an answer were passed on. */
export type SourceResult =
  | { readonly kind: 'reply'; readonly reply: ModelReply }
  | { readonly kind: 'failure'; readonly failure: ProviderFailure; readonly hasBegun: boolean }
  | { readonly kind: 'aborted' }

/** Where answers come from: a provider, or a script. */
export interface ModelSource {
  readonly contextWindow: number | undefined
  generate(request: ModelRequest, signal: AbortSignal): Promise<SourceResult>
}

/** What the world is reached by. */
export interface ModelEnvironment {
  readonly fetch: typeof fetch
  readonly now: () => number
  /** Resolves after a time, or when the signal is aborted. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

export async function sleepUntilAborted(ms: number, signal: AbortSignal): Promise<void> {
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
