import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { ResultRow } from './support/result-table.ts'

/** How one benchmark ended. */
export type Outcome =
  | { readonly rows: readonly ResultRow[] }
  | { readonly notRun: string }
  | { readonly failed: string }

/**
 * Runs a program in its own process and returns the outcome that it sends. A program that ends without
 * one has failed. Neither a crash nor the heap of one benchmark affects the next.
 */
export async function runIsolated(program: URL, args: readonly string[]): Promise<Outcome> {
  const child = fork(program, args)
  const stop = () => void child.kill()
  process.once('exit', stop)
  let outcome: Outcome | undefined
  child.on('message', (message: Outcome) => {
    outcome = message
  })
  const [code, signal] = await once(child, 'exit')
  process.off('exit', stop)
  return outcome ?? { failed: `its process ended with ${signal ?? `code ${code}`}` }
}
