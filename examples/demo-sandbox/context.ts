import { setTimeout as sleep } from 'node:timers/promises'
import type { SandboxServerClient } from '@slipway/client'
import { Problem } from '@slipway/protocol'

/** What a part of the demo works with. */
export interface SandboxDemoContext {
  readonly client: SandboxServerClient
  readonly isFast: boolean
  readonly signal: AbortSignal
  /** A directory that contains everything the demo creates, and nothing else. */
  readonly root: string
  /** The server's data directory. */
  readonly data: string
}

/** A conversation and its sandbox. */
export interface SandboxConversation {
  readonly conversation: string
  readonly sandbox: string
}

const timeoutMs = 30_000

/** Polls until the function returns a value. Rejects with the name of the promise after 30 s. */
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
