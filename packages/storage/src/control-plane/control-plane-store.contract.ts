import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { SandboxRow } from './control-plane-store.ts'
import { walkContract } from './page-walk.contract.ts'
import {
  conversationRow,
  idsOf,
  keyRow,
  messageRow,
  type OpenLedger,
  orgRow,
  sandboxRow,
  taskRow,
  userRow,
  walk,
} from './testing/sample-rows.ts'

/** What each Ledger must keep. */
export function ledgerContract(open: OpenLedger): void {
  test('a ledger has an id of its own, made once', async () => {
    await using first = await open()
    await using second = await open()
    const { id } = first.ledger
    expect(id).toMatch(/^[0-9a-f]{32}$/)
    expect(second.ledger.id).not.toBe(id)
    expect((await first.reopen()).id).toBe(id)
  })

  test('changes that are asked for at once are each done or refused, whatever becomes of the others', async () => {
    await using opened = await open()
    const { documents, startTasks } = opened.ledger
    await startTasks.add(taskRow({ id: 't' }))
    const outcomes = await Promise.allSettled([
      documents.change('u', 'a', () => Buffer.from('1')),
      startTasks.add(taskRow({ id: 't' })),
      documents.change('u', 'b', () => {
        throw new Error('refused')
      }),
      documents.change('u', 'a', (old) => Buffer.concat([old ?? Buffer.alloc(0), Buffer.from('2')])),
    ])
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled'])
    expect(String(await documents.get('u', 'a'))).toBe('12')
    expect(await documents.get('u', 'b')).toBeUndefined()
  })

  sandboxContract(open)
  claimContract(open)
  conversationContract(open)
  taskContract(open)
  peopleContract(open)
  keyContract(open)
  quotaContract(open)
  messageContract(open)
  documentContract(open)
  walkContract(open)
}

function sandboxContract(open: OpenLedger): void {
  test('a sandbox is written once and kept over a restart, with all its members', async () => {
    await using opened = await open()
    const { sandboxes } = opened.ledger
    const row = sandboxRow({
      id: 'a',
      org: 'o',
      detail: 'd\u0000ü😀',
      key_hash: 'h',
      epoch: 'e',
      sealed: Buffer.from([0, 255]),
      created_at: 2 ** 52,
    })
    expect(await sandboxes.add(row)).toBe('added')
    expect(await sandboxes.add({ ...row, owner: 'bob' })).toBe('known')
    const ledger = await opened.reopen()
    expect(await ledger.sandboxes.get(['b', 'a'])).toEqual([undefined, row])
    expect(await ledger.sandboxes.byKeyHash('h')).toEqual(row)
    expect(await ledger.sandboxes.byKeyHash('')).toBeUndefined()
    expect(await ledger.sandboxes.remove('a')).toBe(true)
    expect(await ledger.sandboxes.remove('a')).toBe(false)
    expect(await ledger.sandboxes.byKeyHash('h')).toBeUndefined()
  })

  test('a sandbox is changed only while it is as it was thought to be', async () => {
    let now = 10
    await using opened = await open({ now: () => now })
    const { sandboxes } = opened.ledger
    const row = sandboxRow({ id: 'a', epoch: null })
    await sandboxes.add(row)
    expect(await sandboxes.change('b', { status: 'RUNNING' })).toBeUndefined()
    expect(await sandboxes.change('a', { status: 'RUNNING' }, { where: { epoch: 'x' } })).toBeUndefined()
    expect(await sandboxes.change('a', { used_at: 5 }, { where: { epoch: null } })).toEqual({
      ...row,
      used_at: 5,
    })
    const seen = { status: 'STARTING', wanted: 'running', owner: 'alice' } as const
    const running = { ...row, used_at: 5, status: 'RUNNING', changed_at: 10 }
    expect(await sandboxes.change('a', { status: 'RUNNING' }, { where: seen })).toEqual(running)
    now = 20
    expect(await sandboxes.change('a', { status: 'RUNNING' })).toEqual(running)
    expect(await sandboxes.change('a', { status: 'ERROR' }, { where: seen })).toBeUndefined()
    expect(await sandboxes.change('a', {})).toEqual(running)
    const both = await Promise.all(
      ['PAUSED', 'ERROR'].map((status) =>
        sandboxes.change('a', { status }, { where: { status: 'RUNNING' } }),
      ),
    )
    expect(both).toEqual([{ ...running, status: 'PAUSED', changed_at: 20 }, undefined])
  })

  test('as many sandboxes of an owner are wanted running as the cap allows, however many ask at once', async () => {
    await using opened = await open()
    const { sandboxes } = opened.ledger
    await sandboxes.add(sandboxRow({ id: 'other', owner: 'bob' }), 1)
    await sandboxes.add(sandboxRow({ id: 'paused', wanted: 'paused' }))
    const ids = ['a', 'b', 'c', 'd', 'a']
    const answers = await Promise.all(ids.map((id) => sandboxes.add(sandboxRow({ id }), 2)))
    expect(answers).toEqual(['added', 'added', 'full', 'full', 'known'])
    const wanted = 'running'
    expect(await sandboxes.change('paused', { wanted }, { cap: 2 })).toBeUndefined()
    expect(await sandboxes.change('a', { wanted }, { cap: 2 })).toMatchObject({ id: 'a' })
    await sandboxes.change('b', { wanted: 'paused' })
    const resumed = await Promise.all(
      ['b', 'paused'].map((id) => sandboxes.change(id, { wanted }, { cap: 2 })),
    )
    expect(idsOf(resumed)).toEqual(['b', undefined])
    expect(await sandboxes.add(sandboxRow({ id: 'e' }), 0)).toBe('full')
  })

  test('running sandboxes of an owner come in order of their last use; those wanted gone are in no list but the whole', async () => {
    await using opened = await open()
    const { sandboxes } = opened.ledger
    const members = [
      { id: 'a', used_at: 3 },
      { id: 'b', used_at: 1 },
      { id: 'c', wanted: 'paused', created_at: 9 },
      { id: 'd', wanted: 'gone' },
      { id: 'e', owner: null },
      { id: 'f', owner: 'bob' },
      { id: 'g', org: 'o', used_at: 1 },
    ] as const
    for (const each of members) await sandboxes.add(sandboxRow(each))
    expect(idsOf(await sandboxes.running('alice'))).toEqual(['b', 'g', 'a'])
    expect(idsOf(await sandboxes.running(null))).toEqual(['e'])
    const list = async (owner: string | null, org?: string) =>
      idsOf((await sandboxes.search({ owner, org }, { limit: 10 })).items)
    expect(await list('alice')).toEqual(['c', 'g', 'b', 'a'])
    expect(await list('alice', 'o')).toEqual(['g'])
    expect(await list(null)).toEqual(['e'])
    expect(await list('nobody')).toEqual([])
    expect(idsOf(await Array.fromAsync(sandboxes.all()))).toEqual(members.map(({ id }) => id))
  })

  test('a walk over every sandbox has each one that stays, while others come and go', async () => {
    await using opened = await open()
    const { sandboxes } = opened.ledger
    const ids = Array.from({ length: 500 }, (_, i) => `s${String(i).padStart(4, '0')}`)
    await Promise.all(ids.map((id) => sandboxes.add(sandboxRow({ id }))))
    const seen: string[] = []
    for await (const { id } of sandboxes.all()) {
      seen.push(id)
      if (seen.length % 100 === 0) {
        await sandboxes.remove(id)
        await sandboxes.add(sandboxRow({ id: `r${id}` }))
      }
    }
    expect(seen).toEqual(ids)
  })
}

function claimContract(open: OpenLedger): void {
  test('one of the pool is claimed, the oldest that runs, and is its owner’s from then on', async () => {
    await using opened = await open({ now: () => 50 })
    const { sandboxes } = opened.ledger
    const rows = [
      { id: 'a', created_at: 3 },
      { id: 'b', created_at: 2 },
      { id: 'starting', created_at: 1, status: 'STARTING' },
      { id: 'gone', created_at: 1, wanted: 'gone' },
      { id: 'owned', created_at: 1, owner: 'bob' },
      { id: 'large', created_at: 1, spec: 'large' },
    ] as const
    for (const row of rows) await sandboxes.add(sandboxRow({ owner: null, status: 'RUNNING', ...row }))
    expect(await sandboxes.claim('small', { owner: 'alice', org: 'o', used_at: 7 })).toEqual(
      sandboxRow({ id: 'b', created_at: 2, org: 'o', used_at: 7, status: 'RUNNING' }),
    )
    expect(await sandboxes.claim('small', { owner: 'alice' })).toMatchObject({ id: 'a', owner: 'alice' })
    expect(await sandboxes.claim('small', { owner: 'alice' })).toBeUndefined()
  })

  test('each of the pool is claimed at most once, however many ask at once', async () => {
    const ask = fc.record({ kind: fc.constantFrom('claim', 'add'), spec: fc.constantFrom('x', 'y') })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(ask, { maxLength: 6 }), { maxLength: 6 }), async (rounds) => {
        await using opened = await open()
        const { sandboxes } = opened.ledger
        let made = 0
        let asked = 0
        const claimed: (SandboxRow | undefined)[] = []
        for (const round of rounds) {
          const added = round.filter(({ kind }) => kind === 'add')
          const claims = round.filter(({ kind }) => kind === 'claim')
          const adding = added.map(({ spec }) =>
            sandboxes.add(sandboxRow({ id: `s${made++}`, owner: null, status: 'RUNNING', spec })),
          )
          const claiming = claims.map(({ spec }) => sandboxes.claim(spec, { owner: `u${asked++}` }))
          claimed.push(...(await Promise.all(claiming)))
          await Promise.all(adding)
        }
        const taken = claimed.filter((row) => row !== undefined)
        expect(new Set(idsOf(taken)).size).toBe(taken.length)
        const all = await Array.fromAsync(sandboxes.all())
        expect(all.filter((row) => row.owner !== null).length).toBe(taken.length)
        for (const row of taken) expect(all).toContainEqual(row)
      }),
      { numRuns: 30 },
    )
  })
}

function conversationContract(open: OpenLedger): void {
  test('a conversation is written once, answered again, changed and removed', async () => {
    await using opened = await open()
    const { conversations } = opened.ledger
    const row = conversationRow({ id: 'a', org: 'o', parent: 'p', title: 'Größe', status: 'idle' })
    expect(await conversations.add(row)).toEqual({ row, created: true })
    expect(await conversations.add({ ...row, owner: 'bob' })).toEqual({ row, created: false })
    const changed = { ...row, title: 'ΣΑΣ', updated_at: 9, members: '{"public":true}' }
    const { title, updated_at, members } = changed
    expect(await conversations.change('a', { title, updated_at, members })).toEqual(changed)
    expect(await conversations.change('b', { title })).toBeUndefined()
    const ledger = await opened.reopen()
    expect(await ledger.conversations.get(['a', 'b'])).toEqual([changed, undefined])
    expect(await ledger.conversations.change('a', { title: null, status: null })).toEqual({
      ...changed,
      title: null,
      status: null,
    })
    expect(await ledger.conversations.remove('a')).toBe(true)
    expect(await ledger.conversations.remove('a')).toBe(false)
    expect(await ledger.conversations.get(['a'])).toEqual([undefined])
  })

  test('conversations of a sandbox and of a parent come the oldest first, whoever owns them', async () => {
    await using opened = await open()
    const { conversations } = opened.ledger
    const rows = [
      { id: 'a', created_at: 3 },
      { id: 'b', created_at: 1, parent: 'a', owner: 'bob' },
      { id: 'c', created_at: 2, parent: 'a', sandbox: 's2' },
    ]
    for (const row of rows) await conversations.add(conversationRow(row))
    expect(idsOf(await conversations.inSandbox('s1'))).toEqual(['b', 'a'])
    expect(idsOf(await conversations.children('a'))).toEqual(['b', 'c'])
    expect(await conversations.children('b')).toEqual([])
  })

  test('titles are searched without regard to case, and nothing in a needle is a pattern', async () => {
    await using opened = await open()
    const { conversations } = opened.ledger
    const titles = ['100% Größe', '100 x', 'a_b', 'axb', 'ΣΊΣΥΦΟΣ', 'nul\0 inside', null, '']
    for (const [i, title] of titles.entries())
      await conversations.add(conversationRow({ id: `c${i}`, title }))
    const found = async (title__contains: string) => {
      const filter = { title__contains }
      const page = await conversations.search(
        { owner: 'alice' },
        { ...filter, limit: 10, sort_order: 'CREATED_AT' },
      )
      expect(await conversations.count({ owner: 'alice' }, filter)).toBe(page.items.length)
      return page.items.map(({ title }) => title)
    }
    expect(await found('100%')).toEqual(['100% Größe'])
    expect(await found('GRÖSSE')).toEqual([])
    expect(await found('GRÖßE')).toEqual(['100% Größe'])
    expect(await found('A_B')).toEqual(['a_b'])
    expect(await found('σίσυφος')).toEqual(['ΣΊΣΥΦΟΣ'])
    expect(await found('INSIDE')).toEqual(['nul\0 inside'])
    expect(await found("'; --")).toEqual([])
    expect(await found('')).toHaveLength(titles.length)
  })
}

function taskContract(open: OpenLedger): void {
  test('a start task is written, changed and found; those under way are told of whoever owns them', async () => {
    await using opened = await open()
    const { startTasks } = opened.ledger
    const row = taskRow({ id: 'a', quota_day: '2026-01-31', created_at: 2 })
    await startTasks.add(row)
    await startTasks.add(taskRow({ id: 'b', owner: null, conversation: 'c' }))
    await startTasks.add(taskRow({ id: 'd', status: 'ERROR' }))
    await expect(startTasks.add(row)).rejects.toThrow('already')
    expect(idsOf(await startTasks.unfinished())).toEqual(['b', 'a'])
    const changed = { ...row, status: 'READY', conversation: 'c', quota_day: null, updated_at: 5 }
    const { status, conversation, quota_day, updated_at } = changed
    expect(await startTasks.change('a', { status, conversation, quota_day, updated_at })).toEqual(changed)
    expect(await startTasks.change('x', { status })).toBeUndefined()
    const { startTasks: again } = await opened.reopen()
    expect(idsOf(await again.unfinished())).toEqual(['b'])
    expect(await again.get(['x', 'a'])).toEqual([undefined, changed])
    await again.removeOf('c')
    expect(idsOf(await again.get(['a', 'b', 'd']))).toEqual([undefined, undefined, 'd'])
  })
}

function peopleContract(open: OpenLedger): void {
  test('users and organisations are added once, changed, and listed the newest first', async () => {
    await using opened = await open()
    const { people } = opened.ledger
    const user = userRow({
      id: 'alice',
      email: 'a@example.com',
      is_admin: true,
      daily_conversation_limit: -1,
    })
    expect([await people.addUser(user), await people.addUser({ ...user, is_admin: false })]).toEqual([
      true,
      false,
    ])
    await people.addUser(userRow({ id: 'bob', created_at: 2 }))
    const org = orgRow({ id: 'o' })
    expect([await people.addOrg(org), await people.addOrg(org)]).toEqual([true, false])
    await people.addOrg(orgRow({ id: 'p', created_at: 2 }))
    const reopened = (await opened.reopen()).people
    expect(await reopened.user('alice')).toEqual(user)
    expect(await reopened.user('nobody')).toBeUndefined()
    expect(await reopened.changeUser('alice', { is_admin: false, org: 'o' })).toEqual({
      ...user,
      is_admin: false,
      org: 'o',
    })
    expect(await reopened.changeUser('nobody', { name: 'N' })).toBeUndefined()
    expect(await reopened.changeOrg('o', { daily_conversation_limit: 3 })).toEqual({
      ...org,
      daily_conversation_limit: 3,
    })
    expect(await reopened.org('o')).toMatchObject({ daily_conversation_limit: 3 })
    expect(await reopened.changeOrg('x', { name: 'N' })).toBeUndefined()
    expect(idsOf(await walk((query) => reopened.users(query), 1))).toEqual(['bob', 'alice'])
    expect(idsOf(await walk((query) => reopened.orgs(query), 1))).toEqual(['p', 'o'])
  })

  test('a user is a member of the organisations that it joined and did not leave', async () => {
    await using opened = await open()
    const { people } = opened.ledger
    for (const id of ['alice', 'bob']) await people.addUser(userRow({ id }))
    for (const id of ['p', 'o']) await people.addOrg(orgRow({ id, created_at: id === 'p' ? 1 : 2 }))
    for (const org of ['o', 'p', 'o']) await people.join(org, 'alice')
    await people.join('o', 'bob')
    expect(idsOf(await people.orgsOf('alice'))).toEqual(['p', 'o'])
    expect([await people.leave('o', 'alice'), await people.leave('o', 'alice')]).toEqual([true, false])
    expect(idsOf(await people.orgsOf('alice'))).toEqual(['p'])
    expect(idsOf(await people.orgsOf('bob'))).toEqual(['o'])
    for (const [org, user] of [
      ['x', 'alice'],
      ['o', 'nobody'],
    ] as const)
      await expect(people.join(org, user)).rejects.toMatchObject({ code: 'not_found' })
  })
}

function keyContract(open: OpenLedger): void {
  test('a key is found by its hash, belongs to its user, and remembers its latest use', async () => {
    await using opened = await open()
    const { people } = opened.ledger
    for (const id of ['alice', 'bob']) await people.addUser(userRow({ id }))
    const key = keyRow({ id: 'k', scopes: ['read', 'write'], org: 'o', expires_at: 9, not_before: 3 })
    await people.addKey(key)
    await people.addKey(keyRow({ id: 'l', created_at: 2 }))
    await people.addKey(keyRow({ id: 'm', user: 'bob' }))
    await expect(people.addKey(key)).rejects.toThrow('already')
    await expect(people.addKey(keyRow({ id: 'n', user: 'nobody' }))).rejects.toMatchObject({
      code: 'not_found',
    })
    expect(await people.keyByHash('hash of k')).toEqual(key)
    expect(await people.keyByHash('k')).toBeUndefined()
    for (const at of [5, 7, 6]) await people.touchKey('k', at)
    expect(await people.keyByHash('hash of k')).toEqual({ ...key, used_at: 7 })
    expect(idsOf(await people.keysOf('alice'))).toEqual(['l', 'k'])
    expect(await people.countKeys()).toBe(3)
    expect([await people.removeKey('bob', 'k'), await people.removeKey('alice', 'k')]).toEqual([false, true])
    expect(await people.keyByHash('hash of k')).toBeUndefined()
  })

  test('of a removed user nothing is left to one of the same id', async () => {
    await using opened = await open()
    const { people, documents, quota } = opened.ledger
    await people.addOrg(orgRow({ id: 'o' }))
    for (const id of ['alice', 'bob']) {
      await people.addUser(userRow({ id }))
      await people.join('o', id)
      await people.addKey(keyRow({ id: `key of ${id}`, user: id }))
      await documents.change(id, 'secrets', () => Buffer.from('s'))
      await quota.reserve(id, '2026-01-31', 1)
    }
    expect([await people.removeUser('alice'), await people.removeUser('alice')]).toEqual([true, false])
    await people.addUser(userRow({ id: 'alice' }))
    const left = async (id: string) => [
      (await people.orgsOf(id)).length,
      (await people.keysOf(id)).length,
      (await documents.get(id, 'secrets'))?.length ?? 0,
      await quota.used(id, '2026-01-31'),
    ]
    expect(await left('alice')).toEqual([0, 0, 0, 0])
    expect(await left('bob')).toEqual([1, 1, 1, 1])
  })
}

function quotaContract(open: OpenLedger): void {
  test('slots are taken and given back as a counter would say, never above the limit nor below zero', async () => {
    const ask = fc.record({
      kind: fc.constantFrom('reserve', 'reserve', 'release'),
      user: fc.constantFrom('a', 'b'),
      day: fc.constantFrom('2026-01-31', '2026-02-01'),
      limit: fc.integer({ min: -1, max: 4 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(ask, { maxLength: 8 }), { maxLength: 8 }), async (rounds) => {
        await using opened = await open()
        const { quota } = opened.ledger
        const model = new Map<string, number>()
        for (const round of rounds) {
          const expected = round.map(({ kind, user, day, limit }) => {
            const used = model.get(user + day) ?? 0
            const isReserved = kind === 'reserve' && used < limit
            const then = kind === 'release' ? Math.max(0, used - 1) : used + (isReserved ? 1 : 0)
            model.set(user + day, then)
            return kind === 'reserve' ? { isReserved, used: then } : undefined
          })
          const answers = round.map(({ kind, user, day, limit }) =>
            kind === 'reserve' ? quota.reserve(user, day, limit) : quota.release(user, day),
          )
          expect(await Promise.all(answers)).toEqual(expected)
        }
        for (const [place, used] of model)
          expect(await quota.used(place.slice(0, 1), place.slice(1))).toBe(used)
      }),
      { numRuns: 40 },
    )
  })
}

function messageContract(open: OpenLedger): void {
  test('messages wait in the order in which they came, up to a limit, and move with their target', async () => {
    await using opened = await open()
    const { pendingMessages } = opened.ledger
    const add = (id: string, target: string, max = 3) => pendingMessages.add(messageRow(id, target), max)
    const places = await Promise.all(['z', 'y', 'x', 'w'].map((id) => add(id, 'task-1')))
    expect(places).toEqual([1, 2, 3, undefined])
    expect(await add('y', 'task-1')).toBe(2)
    expect(await add('v', 'c')).toBe(1)
    expect(await add('u', 'd', 0)).toBeUndefined()
    await pendingMessages.remove('y')
    await pendingMessages.remove('nothing')
    expect(await add('t', 'task-1')).toBe(3)
    await pendingMessages.move('task-1', 'c')
    const reopened = (await opened.reopen()).pendingMessages
    expect(await reopened.of('task-1')).toEqual([])
    const moved = ['z', 'x', 'v', 't'].map((id) => messageRow(id, 'c'))
    expect(await reopened.of('c')).toEqual(moved)
  })
}

function documentContract(open: OpenLedger): void {
  test('a document is made of the one before, one change after another, and removed', async () => {
    await using opened = await open()
    const { documents } = opened.ledger
    const add = (old: Buffer | undefined) => Buffer.from([...(old ?? []), (old?.length ?? 0) + 1])
    await Promise.all(Array.from({ length: 20 }, () => documents.change('u', 'd', add)))
    const reopened = (await opened.reopen()).documents
    expect(await reopened.get('u', 'd')).toEqual(Buffer.from(Array.from({ length: 20 }, (_, i) => i + 1)))
    expect(await reopened.get('u', 'e')).toBeUndefined()
    expect(await reopened.get('v', 'd')).toBeUndefined()
    await reopened.change('u', 'd', () => undefined)
    await reopened.change('u', 'd', (old) => {
      expect(old).toBeUndefined()
      return Buffer.alloc(0)
    })
    expect(await reopened.get('u', 'd')).toEqual(Buffer.alloc(0))
  })
}
