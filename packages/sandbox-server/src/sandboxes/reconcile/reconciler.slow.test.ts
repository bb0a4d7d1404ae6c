import { LocalLeases, type SandboxRow, type SandboxRows } from '@slipway/storage/control-plane'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Backend } from '../../backends/backend.ts'
import type { Sandboxes } from '../sandboxes.ts'
import type { SandboxesOptions } from '../state/context.ts'
import { statusTransitions } from '../state/sandbox-repository.ts'
import { ann, createFixture, eventually, type SandboxesFixture } from '../testing/sandboxes-fixture.ts'

/** A control plane that ends at a step: from then on nothing of it writes a row or reaches the backend. */
function crashingControlPlane(at: SandboxesFixture, endAt: number) {
  const ended = Promise.withResolvers<void>()
  const names: string[] = []
  let isEnded = false
  const never = <T>() => new Promise<T>(() => {})
  const while_ = <T>(work: () => Promise<T>): Promise<T> => (isEnded ? never<T>() : work())
  const rows = at.controlPlane.sandboxes
  const guarded: SandboxRows = {
    add: (...args) => while_(() => rows.add(...args)),
    get: (...args) => while_(() => rows.get(...args)),
    findByKeyHash: (...args) => while_(() => rows.findByKeyHash(...args)),
    update: (...args) => while_(() => rows.update(...args)),
    listPooled: (...args) => while_(() => rows.listPooled(...args)),
    claim: (...args) => while_(() => rows.claim(...args)),
    search: (...args) => while_(() => rows.search(...args)),
    searchAll: (...args) => while_(() => rows.searchAll(...args)),
    totals: (...args) => while_(() => rows.totals(...args)),
    listRunning: (...args) => while_(() => rows.listRunning(...args)),
    remove: (...args) => while_(() => rows.remove(...args)),
    grantSecrets: (...args) => while_(() => rows.grantSecrets(...args)),
    listGrantedSecrets: (...args) => while_(() => rows.listGrantedSecrets(...args)),
    iterateRunning: () => rows.iterateRunning(),
    async *iterateAll() {
      if (isEnded) await never()
      yield* rows.iterateAll()
    },
  }
  const { backend } = at
  const reached: Backend = {
    name: backend.name,
    hostUrl: (port) => backend.hostUrl(port),
    isolation: () => backend.isolation(),
    start: (order) => while_(() => backend.start(order)),
    resume: (order) => while_(() => backend.resume(order)),
    pause: (id) => while_(() => backend.pause(id)),
    stop: (id) => while_(() => backend.stop(id)),
    readLog: (id, maxBytes) => while_(() => backend.readLog(id, maxBytes)),
    remove: (id) => while_(() => backend.remove(id)),
    list: (id) => while_(() => backend.list(id)),
  }
  const options: Partial<SandboxesOptions> = {
    // Of its own: what hangs after the end holds nothing.
    controlPlane: {
      sandboxes: guarded,
      users: at.controlPlane.users,
      sandboxEvents: at.controlPlane.sandboxEvents,
      leases: new LocalLeases(),
    },
    backends: [reached],
    onStep(name) {
      if (isEnded) throw new Error('it continues after its end')
      if (names.length === endAt) {
        isEnded = true
        ended.resolve()
        throw new Error('the end')
      }
      names.push(name)
    },
  }
  return { options, ended: ended.promise, names }
}

async function rowsOf(at: SandboxesFixture): Promise<SandboxRow[]> {
  return await Array.fromAsync(at.controlPlane.sandboxes.iterateAll())
}

/** Everything is as it is wanted, and nothing is there that no one wants. */
async function expectSettled(at: SandboxesFixture, mayFail = false): Promise<void> {
  await eventually(async () => {
    const rows = await rowsOf(at)
    for (const { id, wanted, status, key_hash, owner } of rows) {
      const thing = at.backend.sandboxes.get(id)?.state ?? 'absent'
      const settled = `${wanted} ${status} ${thing}`
      const good = [
        'running RUNNING running',
        'paused PAUSED paused',
        'paused PAUSED stopped',
        'paused PAUSED absent',
      ]
      const failed = ['ERROR stopped', 'ERROR paused', 'MISSING absent']
      if (mayFail) good.push(...failed.flatMap((end) => [`running ${end}`, `paused ${end}`]))
      expect(good).toContain(settled)
      if (owner !== null && status === 'RUNNING') expect(key_hash).not.toBeNull()
    }
    expect([...at.backend.sandboxes.keys()].filter((id) => rows.every((row) => row.id !== id))).toEqual([])
  })
}

const desiredSequence = ['none', 'running', 'paused', 'running', 'paused', 'gone']

/** What an owner does in the life of a sandbox; `completed` grows with each answered request. */
async function liveOneSandbox(sandboxes: Sandboxes, acknowledged: string[]): Promise<void> {
  const signal = AbortSignal.timeout(60_000)
  const row = await sandboxes.start(ann)
  acknowledged.push('running')
  await sandboxes.waitSettled(row.id, signal)
  await sandboxes.pause(row)
  acknowledged.push('paused')
  await sandboxes.resume(row)
  acknowledged.push('running')
  await sandboxes.waitSettled(row.id, signal)
  await sandboxes.pause(row)
  acknowledged.push('paused')
  await sandboxes.remove(row)
  acknowledged.push('gone')
}

test.each([0, 1])(
  'a control plane that ends at any step continues where it was (%i in a warm pool)',
  async (warm) => {
    for (let endAt = 0; ; endAt++) {
      const at = await createFixture([{ warm }])
      const { options, ended, names } = crashingControlPlane(at, endAt)
      const completed: string[] = []
      const first = await at.open(options, { begins: false, isClosed: false })
      const lived = first
        .startReconciling()
        .then(() => liveOneSandbox(first, completed))
        .catch(() => undefined)
      await Promise.race([ended, lived.then(() => eventually(() => expect(first.activeWorkers).toBe(0)))])
      const isOver = names.length < endAt
      if (isOver) await first[Symbol.asyncDispose]()
      const wanted = (await rowsOf(at)).find(({ owner }) => owner !== null)?.wanted ?? 'none'
      const after = await at.open()
      await expectSettled(at)
      // Answered requests hold, and perhaps the one that was being processed.
      const index = completed.length
      const possible = index === 5 || desiredSequence[index + 1] === 'gone' ? ['gone', 'none'] : []
      expect(
        [desiredSequence[index], desiredSequence[index + 1], ...possible],
        `${names.join(', ')}, END`,
      ).toContain(wanted)
      for (const { id, owner } of await rowsOf(at)) {
        expect(at.backend.sandboxes.get(id)?.starts ?? 1, names.join(', ')).toBe(1)
        if (owner === null || wanted === 'gone') continue
        const [row] = await after.find([id])
        if (row?.status === 'RUNNING')
          expect(await after.getConnection(row)?.client.call('countConversations', {})).toBe(0)
      }
      if (isOver) break
    }
  },
  180_000,
)

const verbArbitrary = fc.constantFrom('start', 'pause', 'resume', 'remove')
const faultArbitrary = fc.constantFrom('crash', 'vanish', 'down', 'up', 'late', 'restart', 'slow')
const actionArbitrary = fc.oneof(
  { weight: 3, arbitrary: verbArbitrary },
  { weight: 2, arbitrary: faultArbitrary },
  { weight: 2, arbitrary: fc.constant('wait') },
)
const actionsArbitrary = fc.array(fc.tuple(actionArbitrary, fc.nat(2)), { minLength: 5, maxLength: 25 })

/** Most of the time until nothing is to be done, but not while a backend is down. */
async function waitQuiet(sandboxes: Sandboxes): Promise<void> {
  for (let looks = 0; looks < 15 && (looks < 2 || sandboxes.activeWorkers > 0); looks++) {
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Every status that is written, beside the one before. */
function recordTransitions(at: SandboxesFixture, transitions: Set<string>): void {
  const { sandboxes } = at.controlPlane
  const change = sandboxes.update.bind(sandboxes)
  sandboxes.update = async (id, members, options) => {
    const changed = await change(id, members, options)
    const before = options?.where?.status
    if (changed !== undefined && members.status !== undefined && before !== undefined)
      transitions.add(`${before} ${members.status}`)
    return changed
  }
}

function causeFault(at: SandboxesFixture, id: string | undefined, what: string): void {
  const { backend } = at
  if (what === 'crash' && id !== undefined) backend.crash(id)
  if (what === 'vanish' && id !== undefined) backend.vanish(id)
  if (what === 'slow') backend.delayMs = 5
  if (what === 'down') {
    let calls = 0
    const fail = () => {
      calls += 1
      if (calls % 3 !== 0) throw new Error('the engine is down')
    }
    backend.before = fail
    // Some failures come after the work was done.
    backend.after = fail
  }
  if (what === 'late') backend.staleLists = 3
  if (what === 'up') clearFaults(at)
}

function clearFaults({ backend }: SandboxesFixture): void {
  backend.before = () => {}
  backend.after = () => {}
  backend.delayMs = 0
  backend.staleLists = 0
}

test('for any requests and failures, statuses change legally and reach the desired state', async () => {
  const transitions = new Set<string>()
  await fc.assert(
    fc.asyncProperty(actionsArbitrary, async (steps) => {
      const at = await createFixture()
      recordTransitions(at, transitions)
      let sandboxes = await at.open({ answerMs: 100 })
      const ids: string[] = []
      const rows = new Map<string, SandboxRow>()
      const pending: Promise<unknown>[] = []
      for (const [what, which] of steps) {
        const id = ids[which % Math.max(1, ids.length)]
        const row = id === undefined ? undefined : rows.get(id)
        if (what === 'start') {
          const started = await sandboxes.start(ann)
          rows.set(started.id, started)
          ids.push(started.id)
        } else if (what === 'wait') await waitQuiet(sandboxes)
        else if (what === 'restart') {
          await sandboxes[Symbol.asyncDispose]()
          sandboxes = await at.open({ answerMs: 100 })
        } else if (what === 'pause' || what === 'resume' || what === 'remove') {
          // Refusals are fine: what matters is what is left in the end.
          if (row !== undefined) pending.push(sandboxes[what](row).catch(() => undefined))
        } else causeFault(at, id, what)
      }
      await Promise.all(pending)
      clearFaults(at)
      await expectSettled(at, true)
      expect(at.logged.join('\n')).not.toMatch(/went from|two verbs at once/)
      await sandboxes[Symbol.asyncDispose]()
    }),
    { numRuns: 60 },
  )
  for (const way of transitions) {
    const [from = '', to = ''] = way.split(' ')
    if (from !== to) expect(statusTransitions[from as keyof typeof statusTransitions], way).toContain(to)
  }
  // Which ways random histories take differs from run to run; most of them are there in any.
  expect(transitions.size, [...transitions].join(', ')).toBeGreaterThan(3)
}, 180_000)
