import type { LogFunction } from '@slipway/protocol'
import type { Semaphore } from '@slipway/shared/async'
import type { SandboxRow } from '@slipway/storage'
import { hashKey } from '../../auth/authenticator.ts'
import type { Backend, ObservedSandbox } from '../../backends/backend.ts'
import { type Health, probeHealth, sendInit } from '../../network/agent-server-probe.ts'
import { encodeEndpoint } from '../../network/endpoint.ts'
import { generateKey, initRequest, type SandboxEnvironment } from '../state/sandbox-config.ts'
import {
  isPooled,
  parseSandboxStatus,
  type SandboxRepository,
  type SandboxRowUpdate,
} from '../state/sandbox-repository.ts'
import type { SandboxSecrets, SandboxSecretsCipher } from '../state/sandbox-secrets.ts'
import { redactDetail } from '../state/status-detail.ts'
import { plan, type Step, type StepTiming } from './plan.ts'

export interface WorkerDeps {
  readonly repository: SandboxRepository
  readonly backends: ReadonlyMap<string, Backend>
  readonly secretsCipher: SandboxSecretsCipher
  /** What a sandbox of this row is told when it is claimed. */
  readonly getEnvironment: (row: SandboxRow) => SandboxEnvironment
  readonly fetch: typeof globalThis.fetch
  readonly log: LogFunction
  /** Milliseconds. */
  readonly now: () => number
  /** How long an agent server may take to answer. */
  readonly graceMs: number
  /** First and longest pause between two looks at one that is on its way. */
  readonly pollMs: readonly [number, number]
  /** First and longest pause after a failure of a backend. */
  readonly retryMs: readonly [number, number]
  /** Starts may take minutes, so they do not share a gate with what must not wait for them. */
  readonly semaphores: { readonly start: Semaphore; readonly change: Semaphore; readonly look: Semaphore }
}

/** Brings one sandbox from what is there to what is wanted, one step at a time, until nothing is left to do. */
export class Worker {
  readonly id: string
  readonly #deps: WorkerDeps
  readonly #onIdle: (worker: Worker) => void
  readonly #stopping = new AbortController()
  #running: Promise<void> | undefined
  #isNotified = false
  #timer: NodeJS.Timeout | undefined
  #lastStep: string | undefined
  #repeats = 0
  #failures = 0
  #failure: string | undefined
  #epoch: string | null | undefined
  #attemptStartedAt = 0
  /** Where one that has no row was seen. */
  #orphanBackend: Backend | undefined

  constructor(id: string, deps: WorkerDeps, onIdle: (worker: Worker) => void) {
    this.id = id
    this.#deps = deps
    this.#onIdle = onIdle
  }

  /** Why it cannot go on at the moment; it is tried again. */
  get failure(): string | undefined {
    return this.#failure
  }

  /** Look again, now. `stray`: the backend where it was seen, when the ledger does not know it. */
  notify(orphanBackend?: Backend): void {
    this.#orphanBackend ??= orphanBackend
    this.#isNotified = true
    // What failed before is tried now, so it says nothing any more.
    this.#failure = undefined
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#running ??= this.#run()
  }

  /** Resolves when the step under way is over. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    clearTimeout(this.#timer)
    await this.#running
  }

  /** Resolves when it looked and did what it could do without waiting. */
  async waitSettled(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    let delayMs: number | undefined
    while (this.#isNotified && !this.#stopping.signal.aborted) {
      this.#isNotified = false
      delayMs = await this.#attempt()
      if (delayMs === 0) this.#isNotified = true
    }
    this.#running = undefined
    if (this.#stopping.signal.aborted) return
    if (delayMs === undefined) this.#onIdle(this)
    else this.#timer = setTimeout(() => this.notify(), delayMs)
  }

  /** Milliseconds until the next look; undefined when nothing is left to do. */
  async #attempt(): Promise<number | undefined> {
    try {
      const delayMs = await this.#reconcileOnce()
      this.#failures = 0
      this.#failure = undefined
      return delayMs
    } catch (error) {
      if (this.#stopping.signal.aborted) return undefined
      return await this.#handleFailure(error)
    }
  }

  async #reconcileOnce(): Promise<number | undefined> {
    const row = await this.#deps.repository.get(this.id)
    const backend = row === undefined ? this.#orphanBackend : this.#deps.backends.get(row.backend)
    if (backend === undefined) {
      if (row !== undefined) throw new Error(`the backend ${row.backend} is not configured`)
      return undefined
    }
    const observed = await this.#observe(backend)
    const step = plan(row && { ...row, status: parseSandboxStatus(row) }, observed, this.#times(row))
    const name = step.kind === 'mark' ? `mark ${step.status}` : step.kind
    this.#repeats = name === this.#lastStep ? this.#repeats + 1 : 0
    this.#lastStep = name
    if (step.kind === 'rest') {
      if (row !== undefined && hasFailureDetail(row)) await this.#updateRow(row, { detail: null })
      return undefined
    }
    if (row === undefined) {
      await this.#callBackend('remove', () => backend.remove(this.id))
      return this.#delayAfterCallMs()
    }
    return await this.#execute(step, { row, observed, backend, secrets: this.#deps.secretsCipher.open(row) })
  }

  async #execute(step: Step, context: RoundContext): Promise<number | undefined> {
    const { row, backend } = context
    switch (step.kind) {
      case 'rest':
        return undefined
      case 'wait':
        if (step.isLast) await this.#setFailed(context, 'ERROR', 'It is still being made.')
        return step.isLast ? 0 : this.#pollDelayMs()
      case 'probe':
        return await this.#probe(step.isLast, context)
      case 'start':
      case 'resume':
        return await this.#start(step.kind, context)
      case 'pause':
        await this.#callBackend('pause', () => backend.pause(row.id))
        return this.#delayAfterCallMs()
      case 'remove':
        await this.#callBackend('remove', () => backend.remove(row.id))
        return this.#delayAfterCallMs()
      case 'forget':
        await this.#deps.repository.remove(row.id)
        return undefined
      case 'mark':
        return await this.#updateStatus(step, context)
    }
  }

  async #start(verb: 'start' | 'resume', context: RoundContext): Promise<number> {
    const { row, backend, secrets } = context
    if (secrets === undefined) {
      const reason = 'What it was made from is sealed with a key that this server does not have.'
      await this.#setFailed(context, 'ERROR', reason)
      return 0
    }
    await this.#deps.semaphores.start.run(() =>
      this.#deps.repository.runStep(verb, () => backend[verb](secrets.order)),
    )
    const observed = await this.#observe(backend)
    if (observed === undefined) throw new Error('it was started and is not there')
    await this.#updateRow(row, {
      epoch: epochText(observed),
      addresses: encodeEndpoint(observed),
      detail: null,
    })
    return 0
  }

  async #updateStatus(step: Extract<Step, { kind: 'mark' }>, context: RoundContext): Promise<number> {
    const { row, observed } = context
    // A look that finds nothing may have come at a bad moment.
    if (step.status === 'MISSING' && this.#repeats === 0) return this.#deps.pollMs[0]
    if (step.status === 'MISSING') {
      await this.#setFailed(context, 'MISSING', row.status === 'ERROR' ? null : 'Nothing is left of it.')
    } else if (step.status === 'ERROR') {
      await this.#setFailed(context, 'ERROR', observed?.detail ?? 'Its processes have ended.')
    } else {
      const endpoint = observed === undefined ? {} : { addresses: encodeEndpoint(observed) }
      const epoch = step.epoch === undefined ? {} : { epoch: step.epoch }
      await this.#updateRow(row, { status: step.status, detail: null, ...endpoint, ...epoch })
    }
    return 0
  }

  async #probe(isLast: boolean, context: RoundContext): Promise<number> {
    const { row, observed, secrets } = context
    if (secrets === undefined) {
      await this.#setFailed(
        context,
        'ERROR',
        'Its session key is sealed with a key that this server does not have.',
      )
      return 0
    }
    if (!isPooled(row) && secrets.key === null) {
      const key = generateKey()
      await this.#updateRow(row, {
        key_hash: hashKey(key),
        sealed: this.#deps.secretsCipher.seal({ ...secrets, key }),
      })
      return 0
    }
    const health = await this.#checkHealth(row, observed?.addresses.AGENT_SERVER, secrets)
    if (health.kind === 'ready') {
      await this.#updateRow(row, {
        status: 'RUNNING',
        detail: null,
        ...(observed && { addresses: encodeEndpoint(observed) }),
      })
      return 0
    }
    if (!isLast) return this.#pollDelayMs()
    const reason = health.kind === 'pending' ? health.why : 'it still waits for its settings'
    const seconds = Math.round(this.#deps.graceMs / 1000)
    const text = `The agent server was not ready after ${seconds} s: ${reason}. ${observed?.detail ?? ''}`
    await this.#setFailed(context, 'ERROR', text)
    return 0
  }

  async #checkHealth(row: SandboxRow, url: string | undefined, secrets: SandboxSecrets): Promise<Health> {
    if (url === undefined) return { kind: 'pending', why: 'it has no address' }
    const context = { fetch: this.#deps.fetch, signal: this.#stopping.signal }
    const health = await this.#deps.semaphores.look.run(() => probeHealth(url, secrets.key, context))
    if (health.kind !== 'dormant') return health
    if (secrets.key === null) return { kind: 'ready' }
    const body = initRequest(secrets.key, this.#deps.getEnvironment(row))
    const rejection = await this.#deps.repository.runStep('init', () =>
      sendInit(url, secrets.initKey, body, context),
    )
    if (rejection !== undefined) return { kind: 'pending', why: rejection }
    return await probeHealth(url, secrets.key, context)
  }

  #observe(backend: Backend): Promise<ObservedSandbox | undefined> {
    return this.#deps.semaphores.look.run(async () =>
      (await backend.list(this.id)).find(({ id }) => id === this.id),
    )
  }

  #callBackend(name: string, work: () => Promise<void>): Promise<void> {
    return this.#deps.semaphores.change.run(() => this.#deps.repository.runStep(name, work))
  }

  /** What has changed in the meantime is looked at again in the next round. */
  async #updateRow(row: SandboxRow, members: SandboxRowUpdate): Promise<void> {
    this.#stopping.signal.throwIfAborted()
    const changed = await this.#deps.repository.update(row, members)
    if (changed === undefined || changed.status === row.status) return
    this.#deps.log('info', 'sandbox', { sandbox: row.id, from: row.status, to: changed.status })
  }

  /** Null keeps the detail that is there. */
  #setFailed(
    { row, secrets }: RoundContext,
    status: 'ERROR' | 'MISSING',
    text: string | null,
  ): Promise<void> {
    return this.#updateRow(row, { status, detail: text === null ? row.detail : redactDetail(text, secrets) })
  }

  /** The clock of an attempt begins anew with each start of its processes, and after each failure of the backend. */
  #times(row: SandboxRow | undefined): StepTiming {
    const now = this.#deps.now()
    const epoch = row?.status === 'STARTING' || row?.wanted === 'paused' ? row.epoch : undefined
    if (epoch === undefined || epoch !== this.#epoch) {
      this.#epoch = epoch
      this.#attemptStartedAt = now
    }
    return { now, since: this.#attemptStartedAt, graceMs: this.#deps.graceMs }
  }

  /** Grows as long as the same step is to be done again: what takes long is seen late by a seventh of that at most. */
  #pollDelayMs(): number {
    const [first, longest] = this.#deps.pollMs
    return Math.min(longest, first * 1.15 ** Math.min(this.#repeats, 100))
  }

  /** After a verb that has done its work what it did is there to be seen. */
  #delayAfterCallMs(): number {
    return this.#repeats === 0 ? 0 : this.#pollDelayMs()
  }

  async #handleFailure(error: unknown): Promise<number> {
    const [first, longest] = this.#deps.retryMs
    const delayMs = Math.min(longest, first * 2 ** Math.min(this.#failures, 20))
    this.#failures += 1
    this.#epoch = undefined
    const row = await this.#deps.repository.get(this.id).catch(() => undefined)
    const secrets = row && this.#deps.secretsCipher.open(row)
    const reason = redactDetail(error instanceof Error ? error.message : String(error), secrets)
    this.#failure = reason
    this.#deps.log(this.#failures === 1 ? 'warn' : 'debug', 'a sandbox cannot go on and is tried again', {
      sandbox: this.id,
      error: reason,
      delay_ms: delayMs,
    })
    const detail = `${failurePrefix}${reason}`
    if (row !== undefined && row.detail !== detail) {
      await this.#deps.repository.update(row, { detail }).catch(() => undefined)
    }
    this.#deps.repository.changes.notify(this.id)
    return delayMs
  }
}

const failurePrefix = 'It cannot go on and is tried again: '

/** Whether its detail is about a failure of its backend, which is over when nothing is left to do. */
export function hasFailureDetail({ detail }: Pick<SandboxRow, 'detail'>): boolean {
  return detail?.startsWith(failurePrefix) ?? false
}

/** What a round has in its hands. */
interface RoundContext {
  readonly row: SandboxRow
  readonly observed: ObservedSandbox | undefined
  readonly backend: Backend
  /** Undefined when it cannot be opened. */
  readonly secrets: SandboxSecrets | undefined
}

/** Never one of the texts that say that it is not started. */
function epochText({ epoch }: ObservedSandbox): string {
  return epoch === '' ? 'none' : epoch
}
