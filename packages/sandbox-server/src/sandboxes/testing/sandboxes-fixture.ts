import { type SandboxSpec, sandboxSpec } from '@slipway/protocol'
import type { Ledger } from '@slipway/storage'
import { expect, onTestFinished } from 'vitest'
import { ModelBackend } from '../../backends/testing/fake-backend.ts'
import { openTrialLedger } from '../../testing/fixtures.ts'
import { Sandboxes, type SandboxesOptions } from '../sandboxes.ts'
import { Specs } from '../specs.ts'

export const ann = { owner: 'ann' }
export const bob = { owner: 'bob' }

/** Quick, so that tests do not wait; every test says what it changes. */
const quick: Partial<SandboxesOptions> = {
  startMs: 20_000,
  reconcileMs: 50,
  pollMs: [2, 50],
  retryMs: [5, 50],
  idleSeconds: 0,
  maxSessionSeconds: 0,
  deleteAfterSeconds: 0,
}

export interface Trial {
  readonly ledger: Ledger
  readonly backend: ModelBackend
  readonly logged: string[]
  /** The clock of the control plane, which goes on by itself too. */
  readonly clock: { skipMs: number }
  /**
   * Another control plane on the same ledger and backend, as after a restart. `begins` and `isClosed` (at the end of the test) are
   * true unless given.
   */
  open(
    options?: Partial<SandboxesOptions>,
    how?: { readonly begins?: boolean; readonly isClosed?: boolean },
  ): Promise<Sandboxes>
}

/** Sandboxes over a real ledger and a backend in memory whose agent servers are real. */
export async function trial(specs: readonly Partial<SandboxSpec>[] = [{}]): Promise<Trial> {
  const clock = { skipMs: 0 }
  const now = () => Date.now() + clock.skipMs
  const { ledger, cipher, ...opened } = await openTrialLedger(() => now() * 1000)
  const backend = new ModelBackend()
  const logged: string[] = []
  const all: Sandboxes[] = []
  onTestFinished(async () => {
    for (const one of all) await one[Symbol.asyncDispose]()
    await backend[Symbol.asyncDispose]()
    await opened[Symbol.asyncDispose]()
  })
  return {
    ledger,
    backend,
    logged,
    clock,
    async open(options = {}, { begins = true, isClosed = true } = {}) {
      const sandboxes = new Sandboxes({
        ...quick,
        ledger,
        cipher,
        backends: [backend],
        specs: specsOf(specs),
        log: (_, message, members) => logged.push(`${message} ${JSON.stringify(members)}`),
        publicUrl: () => 'http://127.0.0.1:9000',
        hostPort: () => 9000,
        now,
        ...options,
      })
      if (isClosed) all.push(sandboxes)
      if (begins) await sandboxes.begin()
      return sandboxes
    },
  }
}

export function specsOf(specs: readonly Partial<SandboxSpec>[], backend = 'model'): Specs {
  const parsed = specs.map((spec, index) => sandboxSpec.parse({ id: `spec-${index}`, ...spec }))
  return new Specs(parsed, [backend], 0)
}

/** Waits as long as it takes on a slow machine. */
export async function eventually(check: () => void | Promise<void>): Promise<void> {
  const deadline = Date.now() + 20_000
  for (;;) {
    try {
      await check()
      return
    } catch (error) {
      if (Date.now() > deadline) throw error
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
}

/** Starts one and waits until it runs. */
export async function running(sandboxes: Sandboxes, scope = ann, spec?: string) {
  const started = await sandboxes.start(scope, { spec })
  const row = await sandboxes.until(started.id, AbortSignal.timeout(25_000))
  expect(row.status).toBe('RUNNING')
  return row
}
