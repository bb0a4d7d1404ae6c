import type { Ledger, SandboxRow, SandboxRows } from '@slipway/storage'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Backend } from '../../backends/backend.ts'
import type { Sandboxes, SandboxesOptions } from '../sandboxes.ts'
import { ann, eventually, type Trial, trial } from '../testing/sandboxes-fixture.ts'
import { edges } from './plan.ts'

/** A control plane that ends at a step: from then on nothing of it writes a row or reaches the backend. */
function mortal(at: Trial, endAt: number) {
  const ended = Promise.withResolvers<void>()
  const names: string[] = []
  let isEnded = false
  const never = <T>() => new Promise<T>(() => {})
  const while_ = <T>(work: () => Promise<T>): Promise<T> => (isEnded ? never<T>() : work())
  const rows = at.ledger.sandboxes
  const guarded: SandboxRows = {
    add: (...args) => while_(() => rows.add(...args)),
    get: (...args) => while_(() => rows.get(...args)),
    byKeyHash: (...args) => while_(() => rows.byKeyHash(...args)),
    change: (...args) => while_(() => rows.change(...args)),
    claim: (...args) => while_(() => rows.claim(...args)),
    search: (...args) => while_(() => rows.search(...args)),
    running: (...args) => while_(() => rows.running(...args)),
    remove: (...args) => while_(() => rows.remove(...args)),
    async *all() {
      if (isEnded) await never()
      yield* rows.all()
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
    remove: (id) => while_(() => backend.remove(id)),
    list: (id) => while_(() => backend.list(id)),
  }
  const options: Partial<SandboxesOptions> = {
    ledger: { sandboxes: guarded } satisfies Pick<Ledger, 'sandboxes'>,
    backends: [reached],
    onStep(name) {
      if (isEnded) throw new Error('it goes on after its end')
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

async function rowsOf(at: Trial): Promise<SandboxRow[]> {
  return await Array.fromAsync(at.ledger.sandboxes.all())
}

/** Everything is as it is wanted, and nothing is there that nobody wants. */
async function expectSettled(at: Trial, mayFail = false): Promise<void> {
  await eventually(async () => {
    const rows = await rowsOf(at)
    for (const { id, wanted, status, key_hash, owner } of rows) {
      const thing = at.backend.things.get(id)?.state ?? 'absent'
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
    expect([...at.backend.things.keys()].filter((id) => rows.every((row) => row.id !== id))).toEqual([])
  })
}

const wishes = ['none', 'running', 'paused', 'running', 'paused', 'gone']

/** What an owner does in the life of a sandbox; `told` grows with each wish that was answered. */
async function life(sandboxes: Sandboxes, told: string[]): Promise<void> {
  const signal = AbortSignal.timeout(60_000)
  const row = await sandboxes.start(ann)
  told.push('running')
  await sandboxes.until(row.id, signal)
  await sandboxes.pause(row)
  told.push('paused')
  await sandboxes.resume(row)
  told.push('running')
  await sandboxes.until(row.id, signal)
  await sandboxes.pause(row)
  told.push('paused')
  await sandboxes.remove(row)
  told.push('gone')
}

test.each([0, 1])(
  'a control plane that ends at any step goes on where it was (%i in a warm pool)',
  async (warm) => {
    for (let endAt = 0; ; endAt++) {
      const at = await trial([{ warm }])
      const { options, ended, names } = mortal(at, endAt)
      const told: string[] = []
      const first = await at.open(options, { begins: false, isClosed: false })
      const lived = first
        .begin()
        .then(() => life(first, told))
        .catch(() => undefined)
      await Promise.race([ended, lived.then(() => eventually(() => expect(first.busy).toBe(0)))])
      const isOver = names.length < endAt
      if (isOver) await first[Symbol.asyncDispose]()
      const wanted = (await rowsOf(at)).find(({ owner }) => owner !== null)?.wanted ?? 'none'
      const after = await at.open()
      await expectSettled(at)
      // What was answered holds, and at most the wish that was on its way besides.
      const index = told.length
      const possible = index === 5 || wishes[index + 1] === 'gone' ? ['gone', 'none'] : []
      expect([wishes[index], wishes[index + 1], ...possible], `${names.join(', ')}, END`).toContain(wanted)
      for (const { id, owner } of await rowsOf(at)) {
        expect(at.backend.things.get(id)?.starts ?? 1, names.join(', ')).toBe(1)
        if (owner === null || wanted === 'gone') continue
        const [row] = await after.find([id])
        if (row?.status === 'RUNNING')
          expect(await after.reached(row)?.client.call('countConversations', {})).toBe(0)
      }
      if (isOver) break
    }
  },
  180_000,
)

const verb = fc.constantFrom('start', 'pause', 'resume', 'remove')
const accident = fc.constantFrom('crash', 'vanish', 'down', 'up', 'late', 'restart', 'slow')
const move = fc.oneof(
  { weight: 3, arbitrary: verb },
  { weight: 2, arbitrary: accident },
  { weight: 2, arbitrary: fc.constant('wait') },
)
const moves = fc.array(fc.tuple(move, fc.nat(2)), { minLength: 5, maxLength: 25 })

/** Most of the time until nothing is to be done, but not while a backend is down. */
async function quiet(sandboxes: Sandboxes): Promise<void> {
  for (let looks = 0; looks < 15 && (looks < 2 || sandboxes.busy > 0); looks++) {
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Every status that is written, beside the one before. */
function recorded(at: Trial, seen: Set<string>): void {
  const { sandboxes } = at.ledger
  const change = sandboxes.change.bind(sandboxes)
  sandboxes.change = async (id, members, options) => {
    const changed = await change(id, members, options)
    const before = options?.where?.status
    if (changed !== undefined && members.status !== undefined && before !== undefined)
      seen.add(`${before} ${members.status}`)
    return changed
  }
}

function disturb(at: Trial, id: string | undefined, what: string): void {
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
  if (what === 'up') calm(at)
}

function calm({ backend }: Trial): void {
  backend.before = () => {}
  backend.after = () => {}
  backend.delayMs = 0
  backend.staleLists = 0
}

test('whatever is wished and whatever happens, statuses take legal ways and in the end all is as wanted', async () => {
  const taken = new Set<string>()
  await fc.assert(
    fc.asyncProperty(moves, async (steps) => {
      const at = await trial()
      recorded(at, taken)
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
        } else if (what === 'wait') await quiet(sandboxes)
        else if (what === 'restart') {
          await sandboxes[Symbol.asyncDispose]()
          sandboxes = await at.open({ answerMs: 100 })
        } else if (what === 'pause' || what === 'resume' || what === 'remove') {
          // Refusals are fine: what matters is what is left in the end.
          if (row !== undefined) pending.push(sandboxes[what](row).catch(() => undefined))
        } else disturb(at, id, what)
      }
      await Promise.all(pending)
      calm(at)
      await expectSettled(at, true)
      expect(at.logged.join('\n')).not.toMatch(/went from|two verbs at once/)
      await sandboxes[Symbol.asyncDispose]()
    }),
    { numRuns: 60 },
  )
  for (const way of taken) {
    const [from = '', to = ''] = way.split(' ')
    if (from !== to) expect(edges[from as keyof typeof edges], way).toContain(to)
  }
  // Which ways random histories take differs from run to run; most of them are there in any.
  expect(taken.size, [...taken].join(', ')).toBeGreaterThan(3)
}, 180_000)
