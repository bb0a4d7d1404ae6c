import { must, type SandboxSpec, sandboxSpec } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import type { Cipher } from '@slipway/storage'
import type { ControlPlaneStore, SandboxRow } from '@slipway/storage/control-plane'
import { expect, onTestFinished } from 'vitest'
import { FakeBackend } from '../../backends/testing/fake-backend.ts'
import { openTestControlPlane } from '../../testing/fixtures.ts'
import { Sandboxes } from '../sandboxes.ts'
import type { SandboxesOptions } from '../state/context.ts'
import { openSecrets, sealSecrets } from '../state/sandbox-secrets.ts'
import { SandboxSpecs } from '../state/specs.ts'

export const ann = { owner: 'ann' }
export const bob = { owner: 'bob' }

/** Quick, so that tests do not wait; every test says what it changes. */
export const fastOptions = {
  expose: 'auto',
  allowedOrigins: [],
  maxSandboxes: 0,
  maxSandboxesPolicy: 'refuse',
  startMs: 20_000,
  reconcileMs: 50,
  pollMs: [2, 50],
  retryMs: [5, 50],
  idleSeconds: 0,
  maxSessionSeconds: 0,
  deleteAfterSeconds: 0,
} satisfies Partial<SandboxesOptions>

export interface SandboxesFixture {
  readonly controlPlane: ControlPlaneStore
  readonly cipher: Cipher
  readonly backend: FakeBackend
  readonly logged: string[]
  /** The clock of the control plane, which continues on its own too. */
  readonly clock: { skipMs: number }
  /**
   * Another control plane on the same ledger and backend, as after a restart. `begins` and `isClosed` (at the
   * end of the test) are true unless given.
   */
  open(
    options?: Partial<SandboxesOptions>,
    how?: { readonly begins?: boolean; readonly isClosed?: boolean },
  ): Promise<Sandboxes>
}

/** Sandboxes over a real ledger and a backend in memory whose agent servers are real. */
export async function createFixture(
  specs: readonly Partial<SandboxSpec>[] = [{}],
): Promise<SandboxesFixture> {
  const clock = { skipMs: 0 }
  const now = () => Date.now() + clock.skipMs
  const { controlPlane, cipher, ...opened } = await openTestControlPlane(() => now() * 1000)
  const backend = new FakeBackend()
  const logLines: string[] = []
  const all: Sandboxes[] = []
  onTestFinished(async () => {
    for (const one of all) await one[Symbol.asyncDispose]()
    await backend[Symbol.asyncDispose]()
    await opened[Symbol.asyncDispose]()
  })
  return {
    controlPlane,
    cipher,
    backend,
    logged: logLines,
    clock,
    async open(options = {}, { begins = true, isClosed = true } = {}) {
      const sandboxes = new Sandboxes({
        ...fastOptions,
        controlPlane,
        cipher,
        backends: [backend],
        specs: createSpecs(specs),
        log: (_, message, members) => logLines.push(`${message} ${JSON.stringify(members)}`),
        publicUrl: () => 'http://127.0.0.1:9000',
        hostPort: () => 9000,
        clock: { ...systemClock, now },
        ...options,
      })
      if (isClosed) all.push(sandboxes)
      if (begins) await sandboxes.startReconciling()
      return sandboxes
    },
  }
}

export function createSpecs(specs: readonly Partial<SandboxSpec>[], backend = 'model'): SandboxSpecs {
  const parsed = specs.map((spec, index) => ({
    ...sandboxSpec.parse({ id: `spec-${index}`, ...spec }),
    backend,
  }))
  return new SandboxSpecs(parsed, 0)
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

/** Waits for the first look of the control plane: nothing asks its agent server for a while after that. */
export async function waitForFirstLook(backend: FakeBackend, id: string): Promise<void> {
  const look = ['GET /alive', 'GET /server_info']
  await eventually(() => expect(backend.agent(id).requests).toEqual(expect.arrayContaining(look)))
}

/** Starts one and waits until it runs. */
export async function startAndWait(sandboxes: Sandboxes, scope = ann, spec?: string) {
  const started = await sandboxes.start(scope, { spec })
  const row = await sandboxes.waitSettled(started.id, AbortSignal.timeout(25_000))
  expect(row.status).toBe('RUNNING')
  return row
}

/**
 * Starts one that an earlier version took from its warm pool: its agent server waits for its settings at
 * each start.
 */
export async function startFromEarlierPool(at: SandboxesFixture, sandboxes: Sandboxes): Promise<SandboxRow> {
  const row = await startAndWait(sandboxes)
  const secrets = must(openSecrets(at.cipher, row), 'secrets')
  const { SLIPWAY_SESSION_API_KEY: _, OH_SESSION_API_KEYS_0: _other, ...rest } = secrets.order.env
  const env = { ...rest, SLIPWAY_DEFERRED_INIT: 'true', SLIPWAY_INIT_API_KEY: 'init' }
  const old = { ...secrets, initKey: 'init', order: { ...secrets.order, env } }
  await at.controlPlane.sandboxes.update(row.id, { sealed: sealSecrets(at.cipher, old) })
  at.backend.crash(row.id)
  await eventually(async () => expect((await sandboxes.find([row.id]))[0]?.status).toBe('ERROR'))
  await sandboxes.resume(row)
  return await sandboxes.waitSettled(row.id, AbortSignal.timeout(25_000))
}
