import { setTimeout as sleep } from 'node:timers/promises'
import { paint, print, type SelectedModel } from '@slipway/cli/toolkit'
import type { Client, PositionedEvent } from '@slipway/client'

/** What a part of the demo works with. */
export interface DemoContext {
  readonly client: Client
  readonly isFast: boolean
  readonly isAsking: boolean
  /** The directory of the agent. */
  readonly workspace: string
  /** The model that does the work; undefined: a scripted model. */
  readonly model: SelectedModel | undefined
  readonly signal: AbortSignal
}

/** The conversation and its events in the order of arrival. */
export interface DemoRun {
  readonly id: string
  readonly events: readonly PositionedEvent[]
}

/** Throws with the name of the promise when a check fails. */
export function verify(isTrue: boolean, words: string): asserts isTrue {
  if (!isTrue) throw new Error(`A check of the demo has failed: ${words}`)
}

export async function printHeading(
  { isFast, signal }: Pick<DemoContext, 'isFast' | 'signal'>,
  title: string,
): Promise<void> {
  await sleep(isFast ? 0 : 500, undefined, { signal })
  await print(`\n${paint('bold', title)}\n`)
}

/** Prints the command that does the same. */
export async function printCommand(line: string): Promise<void> {
  await print(`${paint('dim', '$')} ${paint('green', line)}\n`)
}
