import type { Log } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage'
import type { Gate } from '../../async/semaphore.ts'
import { hashOf } from '../../auth/authenticator.ts'
import type { Backend, Seen } from '../../backends/backend.ts'
import { type Health, initialise, probe } from '../../network/agent-server-probe.ts'
import { placeText } from '../../network/endpoint.ts'
import { type Home, initBody, newKey } from '../state/sandbox-config.ts'
import { isPooled, type RowMembers, type Rows, statusOf } from '../state/sandbox-repository.ts'
import type { Kept, Seals } from '../state/sandbox-secrets.ts'
import { shownDetail } from '../state/status-detail.ts'
import { plan, type Step, type Times } from './plan.ts'

export interface Surroundings {
  readonly rows: Rows
  readonly backends: ReadonlyMap<string, Backend>
  readonly seals: Seals
  /** What a sandbox of this row is told when it is claimed. */
  readonly homeOf: (row: SandboxRow) => Home
  readonly fetch: typeof globalThis.fetch
  readonly log: Log
  /** Milliseconds. */
  readonly now: () => number
  /** How long an agent server may take to answer. */
  readonly graceMs: number
  /** First and longest pause between two looks at one that is on its way. */
  readonly pollMs: readonly [number, number]
  /** First and longest pause after a failure of a backend. */
  readonly retryMs: readonly [number, number]
  /** Starts may take minutes, so they do not share a gate with what must not wait for them. */
  readonly gates: { readonly start: Gate; readonly change: Gate; readonly look: Gate }
}

/** Brings one sandbox from what is there to what is wanted, one step at a time, until nothing is left to do. */
export class Worker {
  readonly id: string
  readonly #at: Surroundings
  readonly #onRest: (worker: Worker) => void
  readonly #stopping = new AbortController()
  #running: Promise<void> | undefined
  #isRung = false
  #timer: NodeJS.Timeout | undefined
  #lastStep: string | undefined
  #repeats = 0
  #failures = 0
  #failure: string | undefined
  #epoch: string | null | undefined
  #since = 0
  /** Where one that has no row was seen. */
  #stray: Backend | undefined

  constructor(id: string, at: Surroundings, onRest: (worker: Worker) => void) {
    this.id = id
    this.#at = at
    this.#onRest = onRest
  }

  /** Why it cannot go on at the moment; it is tried again. */
  get failure(): string | undefined {
    return this.#failure
  }

  /** Look again, now. `stray`: the backend where it was seen, when the ledger does not know it. */
  ring(stray?: Backend): void {
    this.#stray ??= stray
    this.#isRung = true
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
  async settled(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    let delayMs: number | undefined
    while (this.#isRung && !this.#stopping.signal.aborted) {
      this.#isRung = false
      delayMs = await this.#attempt()
      if (delayMs === 0) this.#isRung = true
    }
    this.#running = undefined
    if (this.#stopping.signal.aborted) return
    if (delayMs === undefined) this.#onRest(this)
    else this.#timer = setTimeout(() => this.ring(), delayMs)
  }

  /** Milliseconds until the next look; undefined when nothing is left to do. */
  async #attempt(): Promise<number | undefined> {
    try {
      const delayMs = await this.#round()
      this.#failures = 0
      this.#failure = undefined
      return delayMs
    } catch (error) {
      if (this.#stopping.signal.aborted) return undefined
      return await this.#failed(error)
    }
  }

  async #round(): Promise<number | undefined> {
    const row = await this.#at.rows.get(this.id)
    const backend = row === undefined ? this.#stray : this.#at.backends.get(row.backend)
    if (backend === undefined) {
      if (row !== undefined) throw new Error(`the backend ${row.backend} is not configured`)
      return undefined
    }
    const seen = await this.#look(backend)
    const step = plan(row && { ...row, status: statusOf(row) }, seen, this.#times(row))
    const name = step.kind === 'mark' ? `mark ${step.status}` : step.kind
    this.#repeats = name === this.#lastStep ? this.#repeats + 1 : 0
    this.#lastStep = name
    if (step.kind === 'rest') {
      if (row !== undefined && tellsOfFailure(row)) await this.#write(row, { detail: null })
      return undefined
    }
    if (row === undefined) {
      await this.#call('remove', () => backend.remove(this.id))
      return this.#afterMs()
    }
    return await this.#do(step, { row, seen, backend, kept: this.#at.seals.open(row) })
  }

  async #do(step: Step, on: Sight): Promise<number | undefined> {
    const { row, backend } = on
    switch (step.kind) {
      case 'rest':
        return undefined
      case 'wait':
        if (step.isLast) await this.#tell(on, 'ERROR', 'It is still being made.')
        return step.isLast ? 0 : this.#pauseMs()
      case 'probe':
        return await this.#probe(step.isLast, on)
      case 'start':
      case 'resume':
        return await this.#start(step.kind, on)
      case 'pause':
        await this.#call('pause', () => backend.pause(row.id))
        return this.#afterMs()
      case 'remove':
        await this.#call('remove', () => backend.remove(row.id))
        return this.#afterMs()
      case 'forget':
        await this.#at.rows.remove(row.id)
        return undefined
      case 'mark':
        return await this.#mark(step, on)
    }
  }

  async #start(verb: 'start' | 'resume', on: Sight): Promise<number> {
    const { row, backend, kept } = on
    if (kept === undefined) {
      const why = 'What it was made from is sealed with a key that this server does not have.'
      await this.#tell(on, 'ERROR', why)
      return 0
    }
    await this.#at.gates.start.hold(() => this.#at.rows.step(verb, () => backend[verb](kept.order)))
    const seen = await this.#look(backend)
    if (seen === undefined) throw new Error('it was started and is not there')
    await this.#write(row, { epoch: epochOf(seen), addresses: placeText(seen), detail: null })
    return 0
  }

  async #mark(step: Extract<Step, { kind: 'mark' }>, on: Sight): Promise<number> {
    const { row, seen } = on
    // A look that finds nothing may have come at a bad moment.
    if (step.status === 'MISSING' && this.#repeats === 0) return this.#at.pollMs[0]
    if (step.status === 'MISSING') {
      await this.#tell(on, 'MISSING', row.status === 'ERROR' ? null : 'Nothing is left of it.')
    } else if (step.status === 'ERROR') {
      await this.#tell(on, 'ERROR', seen?.detail ?? 'Its processes have ended.')
    } else {
      const place = seen === undefined ? {} : { addresses: placeText(seen) }
      const epoch = step.epoch === undefined ? {} : { epoch: step.epoch }
      await this.#write(row, { status: step.status, detail: null, ...place, ...epoch })
    }
    return 0
  }

  async #probe(isLast: boolean, on: Sight): Promise<number> {
    const { row, seen, kept } = on
    if (kept === undefined) {
      await this.#tell(on, 'ERROR', 'Its session key is sealed with a key that this server does not have.')
      return 0
    }
    if (!isPooled(row) && kept.key === null) {
      const key = newKey()
      await this.#write(row, { key_hash: hashOf(key), sealed: this.#at.seals.seal({ ...kept, key }) })
      return 0
    }
    const health = await this.#health(row, seen?.addresses.AGENT_SERVER, kept)
    if (health.kind === 'ready') {
      await this.#write(row, { status: 'RUNNING', detail: null, ...(seen && { addresses: placeText(seen) }) })
      return 0
    }
    if (!isLast) return this.#pauseMs()
    const why = health.kind === 'pending' ? health.why : 'it still waits for its settings'
    const seconds = Math.round(this.#at.graceMs / 1000)
    const text = `The agent server was not ready after ${seconds} s: ${why}. ${seen?.detail ?? ''}`
    await this.#tell(on, 'ERROR', text)
    return 0
  }

  async #health(row: SandboxRow, url: string | undefined, kept: Kept): Promise<Health> {
    if (url === undefined) return { kind: 'pending', why: 'it has no address' }
    const ask = { fetch: this.#at.fetch, signal: this.#stopping.signal }
    const health = await this.#at.gates.look.hold(() => probe(url, kept.key, ask))
    if (health.kind !== 'dormant') return health
    if (kept.key === null) return { kind: 'ready' }
    const body = initBody(kept.key, this.#at.homeOf(row))
    const refusal = await this.#at.rows.step('init', () => initialise(url, kept.initKey, body, ask))
    if (refusal !== undefined) return { kind: 'pending', why: refusal }
    return await probe(url, kept.key, ask)
  }

  #look(backend: Backend): Promise<Seen | undefined> {
    return this.#at.gates.look.hold(async () =>
      (await backend.list(this.id)).find(({ id }) => id === this.id),
    )
  }

  #call(name: string, work: () => Promise<void>): Promise<void> {
    return this.#at.gates.change.hold(() => this.#at.rows.step(name, work))
  }

  /** What has changed in the meantime is looked at again in the next round. */
  async #write(row: SandboxRow, members: RowMembers): Promise<void> {
    this.#stopping.signal.throwIfAborted()
    const changed = await this.#at.rows.change(row, members)
    if (changed === undefined || changed.status === row.status) return
    this.#at.log('info', 'sandbox', { sandbox: row.id, from: row.status, to: changed.status })
  }

  /** Null keeps the detail that is there. */
  #tell({ row, kept }: Sight, status: 'ERROR' | 'MISSING', text: string | null): Promise<void> {
    return this.#write(row, { status, detail: text === null ? row.detail : shownDetail(text, kept) })
  }

  /** The clock of an attempt begins anew with each start of its processes, and after each failure of the backend. */
  #times(row: SandboxRow | undefined): Times {
    const now = this.#at.now()
    const epoch = row?.status === 'STARTING' || row?.wanted === 'paused' ? row.epoch : undefined
    if (epoch === undefined || epoch !== this.#epoch) {
      this.#epoch = epoch
      this.#since = now
    }
    return { now, since: this.#since, graceMs: this.#at.graceMs }
  }

  /** Grows as long as the same step is to be done again: what takes long is seen late by a seventh of that at most. */
  #pauseMs(): number {
    const [first, longest] = this.#at.pollMs
    return Math.min(longest, first * 1.15 ** Math.min(this.#repeats, 100))
  }

  /** After a verb that has done its work what it did is there to be seen. */
  #afterMs(): number {
    return this.#repeats === 0 ? 0 : this.#pauseMs()
  }

  async #failed(error: unknown): Promise<number> {
    const [first, longest] = this.#at.retryMs
    const delayMs = Math.min(longest, first * 2 ** Math.min(this.#failures, 20))
    this.#failures += 1
    this.#epoch = undefined
    const row = await this.#at.rows.get(this.id).catch(() => undefined)
    const kept = row && this.#at.seals.open(row)
    const why = shownDetail(error instanceof Error ? error.message : String(error), kept)
    this.#failure = why
    this.#at.log(this.#failures === 1 ? 'warn' : 'debug', 'a sandbox cannot go on and is tried again', {
      sandbox: this.id,
      error: why,
      delay_ms: delayMs,
    })
    const detail = `${failing}${why}`
    if (row !== undefined && row.detail !== detail) {
      await this.#at.rows.change(row, { detail }).catch(() => undefined)
    }
    this.#at.rows.changes.ring(this.id)
    return delayMs
  }
}

const failing = 'It cannot go on and is tried again: '

/** Whether its detail is about a failure of its backend, which is over when nothing is left to do. */
export function tellsOfFailure({ detail }: Pick<SandboxRow, 'detail'>): boolean {
  return detail?.startsWith(failing) ?? false
}

/** What a round has in its hands. */
interface Sight {
  readonly row: SandboxRow
  readonly seen: Seen | undefined
  readonly backend: Backend
  /** Undefined when it cannot be opened. */
  readonly kept: Kept | undefined
}

/** Never one of the texts that say that it is not started. */
function epochOf({ epoch }: Seen): string {
  return epoch === '' ? 'none' : epoch
}
