import { setTimeout as sleep } from 'node:timers/promises'
import type { SandboxServerClient } from '@slipway/client'
import { Problem } from '@slipway/protocol'

/** What a part of the demo works with. */
export interface SandboxDemoContext {
  readonly client: SandboxServerClient
  readonly isFast: boolean
  readonly signal: AbortSignal
  /** Everything that the demo makes is in here: its directory is of no other use. */
  readonly root: string
  /** Where the server keeps its things. */
  readonly data: string
}

/** A conversation and the sandbox that it is in. */
export interface SandboxConversation {
  readonly conversation: string
  readonly sandbox: string
}

const timeoutMs = 30_000

/** Looks again and again until there is something. Rejects with what was promised when it takes more than 30 s. */
export async function pollUntil<T>(
  words: string,
  signal: AbortSignal,
  attempt: () => Promise<T | undefined>,
): Promise<T> {
  for (const endsAt = Date.now() + timeoutMs; ; ) {
    const result = await attempt()
    if (result !== undefined) return result
    if (Date.now() > endsAt) throw new Problem('unavailable', `It takes too long: ${words}`)
    await sleep(50, undefined, { signal })
  }
}
