import type { Llm } from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import type { Secrets } from '../secrets/secrets.ts'
import type { ProviderFailure } from './failures.ts'
import type { ModelEnvironment, ModelReply, ModelRequest } from './model.ts'
import type { LeftOut } from './refusals/left-out.ts'

/** The result of a request after retries and before fallbacks. */
export type SourceResult =
  | { readonly kind: 'reply'; readonly reply: ModelReply }
  | { readonly kind: 'failure'; readonly failure: ProviderFailure }
  | { readonly kind: 'aborted' }

export interface SourceOptions {
  readonly llm: Llm
  readonly secrets: Secrets
  readonly environment: ModelEnvironment
  readonly cacheKey?: string | undefined
  readonly leftOut?: LeftOut | undefined
}

/** Source of replies: a provider, or a script. */
export interface ModelSource {
  readonly contextWindow: number | undefined
  /** The server leaves tools out of what the model sees. */
  readonly dropsTools?: boolean
  /** Asks the server about its model before the first request. Never rejects. */
  prepare?(): Promise<void>
  generate(request: ModelRequest, signal: AbortSignal): Promise<SourceResult>
}

export async function sleepUntilAborted(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  await clock.sleep(ms, { signal }).catch(() => undefined)
}
