import { setImmediate as turn } from 'node:timers/promises'
import { must } from '@slipway/protocol'
import { FakeClock } from '@slipway/shared/time/testing'
import type { SandboxRow } from '@slipway/storage/control-plane'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { FakeBackend } from '../../backends/testing/fake-backend.ts'
import { openTestControlPlane } from '../../testing/fixtures.ts'
import { Reconciler } from '../reconcile/reconciler.ts'
import { Sandboxes } from '../sandboxes.ts'
import { createContext } from '../state/context.ts'
import { SandboxInfoReader } from '../state/sandbox-info.ts'
import { ann, createSpecs, fastOptions } from '../testing/sandboxes-fixture.ts'
import { ActivityMonitor } from './activity-monitor.ts'
import { LastUseTracker } from './last-use.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const stepMs = 12 * hourMs
const steps = (365 * dayMs) / stepMs
const sandboxCount = 4
/** Steps that a backend is away at most. */
const maxOutage = 4
const idleMs = dayMs
const sessionMs = 5 * dayMs
const deleteMs = 20 * dayMs
const noticeMs = deleteMs / 10
const lifetimes = {
  idleSeconds: idleMs / 1000,
  maxSessionSeconds: sessionMs / 1000,
  deleteAfterSeconds: deleteMs / 1000,
}
const operations = [
  'use',
  'use',
  'use',
  'use',
  'pause',
  'work',
  'rest',
  'lose',
  'send',
  'fail',
  'break',
  'outage',
  'restart',
] as const

/** What the test knows of a sandbox, by what it did and by the calls of the backend. */
interface Known {
  /** Since when it neither ran nor changed. */
  restsSince: number
  /** When it was paused, all its events had arrived, nothing ran, and its agent server said so. */
  isSafe: boolean
  isBroken: boolean
  announcedAt: number | undefined
  deletesAt: number
}

/** Two servers on one database, whose loops the test runs itself. */
async function openYear() {
  const clock = new FakeClock()
  const opened = await openTestControlPlane(() => clock.now() * 1000)
  const { controlPlane, cipher } = opened
  const backend = new FakeBackend()
  const sent = new Set<string>()
  const deletions: string[] = []
  const options = {
    ...{ ...fastOptions, ...lifetimes, controlPlane, cipher, clock, retryMs: [hourMs, hourMs] as const },
    backends: [backend],
    specs: createSpecs([{}]),
    log: (_: string, message: string, members?: object) => {
      if (message.startsWith('delete a sandbox')) deletions.push(JSON.stringify(members))
    },
    publicUrl: () => 'http://127.0.0.1:9000',
    hostPort: () => 9000,
    hasAllEvents: async (_: string, { last }: { last: string | undefined }) =>
      last === undefined || sent.has(last),
  }
  const openServer = () => {
    const context = createContext(options)
    const reconciler = new Reconciler(context)
    const lastUse = new LastUseTracker(context)
    const infoReader = new SandboxInfoReader(context)
    return { reconciler, monitor: new ActivityMonitor({ ...context, reconciler, lastUse, infoReader }) }
  }
  const sandboxes = new Sandboxes(options)
  onTestFinished(async () => {
    await sandboxes[Symbol.asyncDispose]()
    await backend[Symbol.asyncDispose]()
    await opened[Symbol.asyncDispose]()
  })
  return { clock, backend, sent, deletions, sandboxes, openServer, rows: controlPlane.sandboxes }
}

const yearSteps = fc.array(
  fc.record({
    sandbox: fc.nat(sandboxCount - 1),
    name: fc.constantFrom(...operations),
    // Half of the time nothing happens.
    isDone: fc.boolean(),
    duration: fc.integer({ min: 1, max: maxOutage }),
  }),
  { minLength: steps, maxLength: steps, size: 'max' },
)

test('in a year of random use nothing is deleted too early, unannounced or with unsent events, and nothing stays', async () => {
  await fc.assert(fc.asyncProperty(yearSteps, liveYear), { numRuns: 1, endOnFailure: true })
})

async function liveYear(year: typeof yearSteps extends fc.Arbitrary<infer T> ? T : never): Promise<void> {
  const at = await openYear()
  const { clock, backend, sandboxes } = at
  const known = new Map<string, Known>()
  const deleted: Record<'isRunning' | 'isSafe' | 'isEarly' | 'isSudden', boolean>[] = []
  let waiting = 0
  let servers = [at.openServer(), at.openServer()]
  let outage = 0
  let eventCount = 0

  backend.before = (verb, id) => {
    if (outage > 0) throw new Error('the backend is away')
    const one = known.get(id ?? '')
    if (verb === 'pause' && one !== undefined) {
      const agent = backend.agent(must(id, 'an id'))
      const hasSent = [...agent.logs.values()].every((log) => log.every((event) => at.sent.has(event)))
      Object.assign(one, {
        restsSince: clock.now(),
        isSafe: hasSent && agent.running === 0 && !agent.isFailing,
      })
    }
    if (verb === 'remove') {
      const { restsSince, isSafe, isBroken, announcedAt, deletesAt } = must(one, 'a known sandbox')
      const now = clock.now()
      // Thrown here it would be a failure of the backend, which is tried again.
      deleted.push({
        isRunning: backend.sandboxes.get(id ?? '')?.state === 'running',
        isSafe,
        isEarly: now - restsSince < deleteMs + (isBroken ? 2 * idleMs : 0),
        isSudden: announcedAt === undefined || now - announcedAt < noticeMs || now < deletesAt,
      })
    }
  }

  const settle = async () => {
    while (outage === 0 && [sandboxes, ...servers.map(({ reconciler }) => reconciler)].some(isActive))
      await turn()
  }
  const startOne = async () => {
    const { id } = await sandboxes.start(ann)
    await sandboxes.waitSettled(id, AbortSignal.timeout(20_000))
    backend.agent(id).logs.set('c', [])
    known.set(id, {
      restsSince: clock.now(),
      isSafe: false,
      isBroken: false,
      announcedAt: undefined,
      deletesAt: 0,
    })
  }
  const use = async (id: string, one: Known) => {
    const row = await sandboxes.get(ann, id)
    if (row.status !== 'RUNNING') {
      Object.assign(one, { isSafe: false, isBroken: false, announcedAt: undefined })
      const logs = backend.agent(id).logs
      await sandboxes.resume(row)
      await sandboxes.waitSettled(id, AbortSignal.timeout(20_000))
      for (const [conversation, log] of logs) backend.agent(id).logs.set(conversation, log)
    }
    backend.agent(id).idleSeconds = 0
    sandboxes.touch(id)
  }
  const operate = async (name: (typeof operations)[number], id: string, duration: number) => {
    const one = must(known.get(id), 'a known sandbox')
    const sandbox = must(backend.sandboxes.get(id), 'a sandbox')
    const agent = backend.agent(id)
    const isRunning = sandbox.state === 'running'
    if (name === 'outage') outage = duration
    if (name === 'restart') servers = [at.openServer(), at.openServer()]
    if (name === 'use') await use(id, one)
    if (name === 'pause' && isRunning) await sandboxes.pause(await sandboxes.get(ann, id))
    if (name === 'work' && isRunning) agent.running = 1
    if (name === 'rest' && isRunning) agent.running = 0
    if (name === 'fail' && isRunning) agent.isFailing = true
    if (name === 'lose' && isRunning) agent.logs.get('c')?.push(`e${++eventCount}`)
    if (name === 'send' && isRunning) for (const event of agent.logs.get('c') ?? []) at.sent.add(event)
    if (name === 'break' && sandbox.state === 'paused') {
      sandbox.state = 'broken'
      Object.assign(one, { isBroken: true, announcedAt: undefined, restsSince: clock.now() })
    }
  }

  const sweep = async () => {
    const settled: SandboxRow[] = []
    const workers = await must(servers[0], 'a server').reconciler.reconcileAll(
      (row) => void settled.push(row),
    )
    await Promise.all(workers.map(({ running }) => running))
    await settle()
    // Both act on the same rows at the same moment.
    await Promise.all(servers.map(({ monitor }) => monitor.checkAll(settled)))
    await settle()
  }

  const check = async () => {
    for (const [id, one] of [...known]) {
      const [row] = await at.rows.get([id])
      if (row === undefined) {
        known.delete(id)
        await startOne()
        continue
      }
      const { deletes_at } = await sandboxes.getInfo(row)
      if (deletes_at === null) one.announcedAt = undefined
      else {
        one.announcedAt ??= clock.now()
        one.deletesAt = Date.parse(deletes_at)
      }
      if (row.status === 'RUNNING')
        expect(clock.now() * 1000 - row.changed_at).toBeLessThan((sessionMs + 2 * stepMs * maxOutage) * 1000)
      if (row.status === 'RUNNING' || !one.isSafe) continue
      const limitMs = deleteMs + (one.isBroken ? 2 * idleMs : 0) + noticeMs + 2 * (maxOutage + 1) * stepMs
      expect(clock.now() - one.restsSince).toBeLessThan(limitMs)
      waiting += 1
    }
  }

  for (let count = 0; count < sandboxCount; count++) await startOne()
  for (const { sandbox, name, isDone, duration } of year) {
    outage = Math.max(0, outage - 1)
    await clock.advance(stepMs)
    for (const { agent } of backend.sandboxes.values())
      if (agent !== undefined) agent.idleSeconds += stepMs / 1000
    await settle()
    if (isDone && outage === 0) await operate(name, must([...known.keys()][sandbox], 'an id'), duration)
    await sweep()
    if (outage === 0) await check()
  }
  const right = { isRunning: false, isSafe: true, isEarly: false, isSudden: false }
  expect(deleted).toEqual(deleted.map(() => right))
  expect(at.deletions).toHaveLength(deleted.length)
  expect(deleted.length).toBeGreaterThan(3)
  expect(waiting).toBeGreaterThan(100)
}

function isActive({ activeWorkers }: { readonly activeWorkers: number }): boolean {
  return activeWorkers > 0
}
