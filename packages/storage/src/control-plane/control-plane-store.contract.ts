import fc from 'fast-check'
import { expect, test } from 'vitest'
import { documentStoreContract } from '../documents/document-store.contract.ts'
import type { AllConversationsQuery } from './app-conversations.ts'
import type { AuditFilter } from './audit-rows.ts'
import { AuditTrail } from './audit-trail.ts'
import { everyOwner } from './owned-by.ts'
import { pageWalkContract } from './page-walk.contract.ts'
import type { PageQuery } from './rows.ts'
import type { SandboxFilter } from './sandboxes.ts'
import {
  auditRow,
  conversationRow,
  keyRow,
  messageRow,
  type OpenStore,
  orgRow,
  rowIds,
  sandboxRow,
  taskRow,
  userRow,
  walkPages,
} from './testing/sample-rows.ts'
import type { UsageQuery } from './usage.ts'

/** What every ControlPlaneStore guarantees. */
export function controlPlaneStoreContract(open: OpenStore): void {
  test('a store has its own id, created once', async () => {
    await using first = await open()
    await using second = await open()
    const { id } = first.store
    expect(id).toMatch(/^[0-9a-f]{32}$/)
    expect(second.store.id).not.toBe(id)
    expect((await first.reopen()).id).toBe(id)
  })

  test('concurrent changes succeed or fail independently', async () => {
    await using fixture = await open()
    const { documents, startTasks } = fixture.store
    await startTasks.add(taskRow({ id: 't' }))
    const outcomes = await Promise.allSettled([
      documents.update('u', 'a', () => Buffer.from('1')),
      startTasks.add(taskRow({ id: 't' })),
      documents.update('u', 'b', () => {
        throw new Error('refused')
      }),
      documents.update('u', 'a', (old) => Buffer.concat([old ?? Buffer.alloc(0), Buffer.from('2')])),
    ])
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled'])
    expect(String(await documents.get('u', 'a'))).toBe('12')
    expect(await documents.get('u', 'b')).toBeUndefined()
  })

  sandboxContract(open)
  overviewContract(open)
  usageContract(open)
  sandboxEventContract(open)
  claimContract(open)
  conversationContract(open)
  taskContract(open)
  usersContract(open)
  keyContract(open)
  quotaContract(open)
  auditContract(open)
  organizationContract(open)
  roleContract(open)
  messageContract(open)
  documentStoreContract(async () => {
    const fixture = await open()
    return {
      documents: fixture.store.documents,
      reopen: async () => (await fixture.reopen()).documents,
      [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose](),
    }
  })
  pageWalkContract(open)
}

function organizationContract(open: OpenStore): void {
  test('an organisation goes with memberships and keys, and stays while work belongs to it', async () => {
    await using fixture = await open()
    const { users, sandboxes, conversations } = fixture.store
    for (const id of ['o', 'p']) await users.addOrg(orgRow({ id }))
    for (const id of ['u', 'v', 'w']) await users.addUser(userRow({ id, org: id === 'u' ? 'o' : null }))
    for (const id of ['u', 'v']) await users.addMember('o', id)
    await users.addMember('p', 'u')
    for (const org of ['o', 'p', null]) await users.addKey(keyRow({ id: `k${org}`, user: 'u', org }))
    expect(rowIds(await walkPages((query) => users.listMembers('o', query), 1))).toEqual(['v', 'u'])
    await sandboxes.add(sandboxRow({ id: 's', org: 'o' }))
    await conversations.add(conversationRow({ id: 'c', org: 'o' }))
    expect(await users.countOfOrg('o')).toEqual({ members: 2, sandboxes: 1, conversations: 1 })
    await sandboxes.remove('s')
    expect(await users.removeOrg('o')).toBe(false)
    await conversations.remove('c')
    expect(await users.removeOrg('o')).toBe(true)
    expect(await users.removeOrg('o')).toBe(false)
    expect(rowIds(await users.listOrgsOfUser('u'))).toEqual(['p'])
    expect(rowIds(await users.listKeys('u')).sort()).toEqual(['knull', 'kp'])
    expect((await users.getUser('u'))?.org).toBeNull()
    expect((await users.listMembers('o', { limit: 5 })).items).toEqual([])
  })
}

function roleContract(open: OpenStore): void {
  test('an organisation keeps a member who may change it, and owners alone change owners', async () => {
    await using fixture = await open()
    const { users } = fixture.store
    for (const id of ['o', 'p']) await users.addOrg(orgRow({ id }))
    for (const id of ['u', 'v', 'w']) await users.addUser(userRow({ id, org: id === 'w' ? 'o' : null }))
    const roles = async () =>
      (await users.listMembers('o', { limit: 5 })).items.map(({ id, role }) => `${id} ${role}`).sort()
    await users.addMember('o', 'u', { role: 'admin' })
    await expect(users.addMember('o', 'u', { role: 'member' })).rejects.toMatchObject({ code: 'conflict' })
    await expect(users.removeMember('o', 'u', {})).rejects.toMatchObject({ code: 'conflict' })
    await expect(users.addMember('o', 'v', { role: 'owner' })).rejects.toMatchObject({ code: 'forbidden' })
    await users.addMember('o', 'v', { role: 'owner', mayChangeOwners: true })
    await users.addMember('o', 'v')
    await expect(users.addMember('o', 'v', { role: 'admin' })).rejects.toMatchObject({ code: 'forbidden' })
    await expect(users.removeMember('o', 'v', {})).rejects.toMatchObject({ code: 'forbidden' })
    await expect(users.removeMember('o', 'v')).rejects.toMatchObject({ code: 'conflict' })
    await users.addMember('o', 'u', { role: 'member' })
    await users.addMember('o', 'w')
    expect(await roles()).toEqual(['u member', 'v owner', 'w member'])
    expect((await users.listManagers('o')).map(({ id, role }) => [id, role])).toEqual([['v', 'owner']])
    expect([await users.getRole('o', 'u'), await users.getRole('p', 'u')]).toEqual(['member', undefined])
  })

  test('who leaves an organisation loses its keys, and of owners who all leave at once one stays', async () => {
    await using fixture = await open()
    const { users } = fixture.store
    for (const id of ['o', 'p']) await users.addOrg(orgRow({ id }))
    for (const id of ['u', 'v', 'w']) await users.addUser(userRow({ id, org: id === 'w' ? 'o' : null }))
    for (const org of ['o', 'p']) await users.addMember(org, 'w')
    for (const org of ['o', 'p', null]) await users.addKey(keyRow({ id: `k${org}`, user: 'w', org }))
    await users.addKey(keyRow({ id: 'made', user: 'w', org: 'o', created_by: 'ko' }))
    expect(await users.removeMember('o', 'w', {})).toBe(true)
    expect(rowIds(await users.listKeys('w')).sort()).toEqual(['knull', 'kp'])
    expect((await users.getUser('w'))?.org).toBeNull()
    const owners = ['u', 'v', 'w']
    for (const id of owners) await users.addMember('o', id, { role: 'owner', mayChangeOwners: true })
    const left = await Promise.allSettled(owners.map((id) => users.removeMember('o', id)))
    expect(left.map(({ status }) => status).sort()).toEqual(['fulfilled', 'fulfilled', 'rejected'])
    expect((await users.listMembers('o', { limit: 5 })).items).toHaveLength(1)
  })
}

function auditContract(open: OpenStore): void {
  test('lines of the audit are found by what they say, newest first', async () => {
    await using fixture = await open()
    const { audit } = fixture.store
    const rows = [
      auditRow({ id: 'a', created_at: 1, caller: 'user:u', action: 'createUser', target: 'x', status: 201 }),
      auditRow({ id: 'b', created_at: 2, caller: 'user:v', org: 'o', target: 'y', status: 403 }),
      auditRow({ id: 'c', created_at: 3, caller: 'user:u', sandbox: 'S_1%', status: null }),
    ]
    for (const row of rows) await audit.put(row)
    const find = async (filter: AuditFilter) => rowIds((await audit.search({ limit: 10, ...filter })).items)
    expect((await audit.search({ limit: 10 })).items).toEqual(rows.toReversed())
    expect(await walkPages((query) => audit.search({ caller: 'user:u', ...query }), 1)).toEqual([
      rows[2],
      rows[0],
    ])
    expect(await find({ action: 'createUser' })).toEqual(['a'])
    expect(await find({ target: 'y' })).toEqual(['b'])
    expect(await find({ target: 'y', org: 'p' })).toEqual([])
    expect(await find({ created_at__gte: 2, created_at__lt: 3 })).toEqual(['b'])
    expect(await find({ isRefused: true })).toEqual(['c', 'b'])
    expect(await find({ text: 's_1%' })).toEqual(['c'])
    expect(await find({ text: 's%1' })).toEqual([])
  })

  test('a line is replaced by its id, and old ones go, of those without a caller all but the newest', async () => {
    await using fixture = await open()
    const { audit } = fixture.store
    const members = { name: 'A\u0000ü😀', n: [1] }
    for (let at = 1; at <= 6; at++) await audit.put(auditRow({ id: String(at), created_at: at }))
    const changed = auditRow({ id: '4', created_at: 4, caller: 'user:u', status: 200, after: members })
    await audit.put(changed)
    await audit.prune(3, 2)
    const reopened = await fixture.reopen()
    const { items } = await reopened.audit.search({ limit: 10 })
    expect(rowIds(items)).toEqual(['6', '5', '4'])
    expect(items[2]).toEqual(changed)
  })

  test('a user with any number of conversations is forgotten in lines', async () => {
    await using fixture = await open()
    const { audit } = fixture.store
    const ids = Array.from({ length: 70_000 }, (_, at) => `c${at}`)
    const after = { title: 'Salary' }
    const rows = [
      auditRow({ id: '1', created_at: 1, caller: 'user:u', target: 'c0', after }),
      auditRow({ id: '2', created_at: 2, caller: 'user:root', target: 'c69999', after }),
      auditRow({ id: '3', created_at: 3, caller: null, target: 'u', after }),
      auditRow({ id: '4', created_at: 4, caller: null, target: 'c1', after }),
      auditRow({ id: '5', created_at: 5, caller: 'user:v', target: 'x', after }),
    ]
    for (const row of rows) await audit.put(row)
    expect(await audit.countAbout('u', [...ids, 'u', 'c1'])).toBe(4)
    await audit.pseudonymise('u', 'erased', ids)
    const { items } = await audit.search({ limit: 10 })
    expect(items.map((row) => [row.id, row.after])).toEqual([
      ['5', after],
      ...['4', '3', '2', '1'].map((id) => [id, null]),
    ])
  })

  test('a line names a sandbox that was claimed, and each of several that were changed', async () => {
    await using fixture = await open()
    const { audit, sandboxes } = fixture.store
    const run = async (action: string, work: () => Promise<unknown>) => {
      const route = { method: 'POST', route: '/sandboxes', target_type: 'sandbox', request_id: 'r' }
      await new AuditTrail({ ...route, action }, 7).run(work)
      return (await audit.search({ action, limit: 10 })).items
    }
    await sandboxes.add(sandboxRow({ id: 'p', owner: null, status: 'RUNNING' }))
    for (const id of ['a', 'b', 'c']) await sandboxes.add(sandboxRow({ id, owner: 'u' }))
    const claimed = await run('start', async () => {
      await sandboxes.add(sandboxRow({ id: 'refilled', owner: null }))
      await sandboxes.update('a', { wanted: 'paused' })
      await sandboxes.claim('p', { owner: 'u', sealed: Buffer.from('of u') })
    })
    expect(claimed).toMatchObject([{ target: 'p', before: { owner: null }, after: { owner: 'u' } }])
    const several = await run('several', async () => {
      for (const id of ['b', 'c']) await sandboxes.update(id, { wanted: 'gone' })
    })
    const [before, after] = [{ wanted: 'running' }, { wanted: 'gone' }]
    expect(several).toMatchObject([
      { target: null, before: { b: before, c: before }, after: { b: after, c: after } },
    ])
    const one = await run('one', () => sandboxes.update('b', { wanted: 'paused' }))
    expect(one).toMatchObject([{ target: 'b', before: after, after: { wanted: 'paused' } }])
  })

  test('a change within a trail and its line are one transaction', async () => {
    await using fixture = await open()
    const { audit, users, documents } = fixture.store
    const trail = new AuditTrail(
      { action: 'createUser', method: 'POST', route: '/users', target_type: 'user', request_id: 'r' },
      7,
    )
    trail.setCaller({ caller: 'user:root', via: 'k', org: null })
    await trail.run(async () => {
      await users.addOrg(orgRow({ id: 'o' }))
      await users.addUser(userRow({ id: 'u', name: 'Ann' }))
      await users.addMember('o', 'u')
      await users.addKey(keyRow({ id: 'key', user: 'u', hash: 'secret hash' }))
      await expect(users.addMember('o', 'unknown')).rejects.toMatchObject({ code: 'not_found' })
      await users.setLimits('u', { max_sandboxes: 3 })
      await users.updateUser('u', { name: 'Ann B.' })
      await documents.update(
        'u',
        'd',
        () => Buffer.from('1'),
        () => ({ before: {}, after: { d: 1 } }),
      )
    })
    const { items } = await audit.search({ limit: 10 })
    expect(items).toMatchObject([
      {
        ...{ created_at: 7, caller: 'user:root', via: 'k', action: 'createUser', target: 'u', status: null },
        before: null,
        after: { name: 'Ann B.', max_sandboxes: 3, d: 1, keys: ['key'], organizations: ['o'] },
      },
    ])
    expect(JSON.stringify(items)).not.toContain('secret hash')
    trail.isEnded = true
    await trail.run(() => users.updateUser('u', { name: 'C' }))
    await users.removeKeys('u')
    expect((await audit.search({ limit: 10 })).items).toEqual(items)
  })
}

function sandboxContract(open: OpenStore): void {
  test('a sandbox is written once and survives a restart with all its members', async () => {
    await using fixture = await open()
    const { sandboxes } = fixture.store
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
    const reopened = await fixture.reopen()
    expect(await reopened.sandboxes.get(['b', 'a'])).toEqual([undefined, row])
    expect(await reopened.sandboxes.findByKeyHash('h')).toEqual(row)
    expect(await reopened.sandboxes.findByKeyHash('')).toBeUndefined()
    expect(await reopened.sandboxes.remove('a')).toBe(true)
    expect(await reopened.sandboxes.remove('a')).toBe(false)
    expect(await reopened.sandboxes.findByKeyHash('h')).toBeUndefined()
  })

  test('names of secrets are granted to one sandbox, survive a restart and go with it', async () => {
    await using fixture = await open()
    const { sandboxes } = fixture.store
    for (const id of ['a', 'b']) await sandboxes.add(sandboxRow({ id }))
    await sandboxes.grantSecrets('a', ['TWO', 'ONE'])
    await sandboxes.grantSecrets('a', ['ONE', 'three'])
    const reopened = await fixture.reopen()
    expect(await reopened.sandboxes.listGrantedSecrets('a')).toEqual(['ONE', 'TWO', 'three'])
    expect(await reopened.sandboxes.listGrantedSecrets('b')).toEqual([])
    await reopened.sandboxes.remove('a')
    expect(await reopened.sandboxes.listGrantedSecrets('a')).toEqual([])
  })

  test('limits of a user are set one by one, and go with the user', async () => {
    await using fixture = await open()
    const { users } = fixture.store
    const row = { name: null, email: null, org: null, daily_conversation_limit: null, created_at: 1 }
    await users.addUser({ id: 'u', is_admin: false, ...row })
    const none = { max_conversations: null, max_stored_mb: null, max_sandboxes: null }
    expect(await users.getLimits('u')).toEqual(none)
    expect(await users.setLimits('u', { max_stored_mb: 5 })).toEqual({ ...none, max_stored_mb: 5 })
    const both = { max_conversations: -1, max_stored_mb: 5, max_sandboxes: 2 }
    expect(await users.setLimits('u', { max_conversations: -1, max_sandboxes: 2 })).toEqual(both)
    const reopened = await fixture.reopen()
    expect(await reopened.users.getLimits('u')).toEqual(both)
    await expect(reopened.users.setLimits('x', both)).rejects.toMatchObject({ code: 'not_found' })
    await reopened.users.removeUser('u')
    expect(await reopened.users.getLimits('u')).toEqual(none)
  })

  test('an owner has no more conversations than a limit, also of concurrent ones', async () => {
    await using fixture = await open()
    const { conversations } = fixture.store
    const add = (id: string, owner = 'alice') =>
      conversations.add(conversationRow({ id, owner, parent: id === 'b' ? 'a' : null }), { maxOfOwner: 2 })
    const results = await Promise.allSettled(['a', 'b', 'c'].map((id) => add(id)))
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected'])
    await expect(add('d')).rejects.toMatchObject({ code: 'too_many' })
    expect(await add('a')).toMatchObject({ created: false })
    expect(await add('e', 'bob')).toMatchObject({ created: true })
    expect([await conversations.countAll('alice'), await conversations.listIds('alice')]).toEqual([
      2,
      ['a', 'b'],
    ])
  })

  test('a sandbox is changed only while the conditions hold', async () => {
    let now = 10
    await using fixture = await open({ now: () => now })
    const { sandboxes } = fixture.store
    const row = sandboxRow({ id: 'a', epoch: null })
    await sandboxes.add(row)
    expect(await sandboxes.update('b', { status: 'RUNNING' })).toBeUndefined()
    expect(await sandboxes.update('a', { status: 'RUNNING' }, { where: { epoch: 'x' } })).toBeUndefined()
    expect(await sandboxes.update('a', { used_at: 5 }, { where: { epoch: null } })).toEqual({
      ...row,
      used_at: 5,
    })
    const listed = { status: 'STARTING', wanted: 'running', owner: 'alice' } as const
    const running = { ...row, used_at: 5, status: 'RUNNING', changed_at: 10 }
    expect(await sandboxes.update('a', { status: 'RUNNING' }, { where: listed })).toEqual(running)
    now = 20
    expect(await sandboxes.update('a', { status: 'RUNNING' })).toEqual(running)
    expect(await sandboxes.update('a', { status: 'ERROR' }, { where: listed })).toBeUndefined()
    expect(await sandboxes.update('a', {})).toEqual(running)
    const both = await Promise.all(
      ['PAUSED', 'ERROR'].map((status) =>
        sandboxes.update('a', { status }, { where: { status: 'RUNNING' } }),
      ),
    )
    expect(both).toEqual([{ ...running, status: 'PAUSED', changed_at: 20 }, undefined])
    const noted = { ...running, status: 'PAUSED', changed_at: 20, caught_up_at: 30, deletes_at: 40 }
    expect(await sandboxes.update('a', { caught_up_at: 30, deletes_at: 40 })).toEqual(noted)
    expect(await sandboxes.update('a', { caught_up_at: null })).toEqual({ ...noted, caught_up_at: null })
  })

  test('running sandboxes of an owner are ordered by last use; those to be removed are only in the whole list', async () => {
    await using fixture = await open()
    const { sandboxes } = fixture.store
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
    expect(rowIds(await sandboxes.listRunning('alice'))).toEqual(['b', 'g', 'a'])
    expect(rowIds(await sandboxes.listRunning(null))).toEqual(['e'])
    expect(rowIds(await Array.fromAsync(sandboxes.iterateRunning()))).toEqual(
      members.filter((one) => !('wanted' in one)).map(({ id }) => id),
    )
    const list = async (owner: string | null, org?: string) =>
      rowIds((await sandboxes.search({ owner, org }, { limit: 10 })).items)
    expect(await list('alice')).toEqual(['c', 'g', 'b', 'a'])
    expect(await list('alice', 'o')).toEqual(['g'])
    expect(await list(null)).toEqual(['e'])
    const first = await sandboxes.search(everyOwner, { limit: 3 })
    const rest = await sandboxes.search(everyOwner, { limit: 3, page_id: first.next_page_id ?? '' })
    expect(rowIds([...first.items, ...rest.items])).toEqual(['c', 'g', 'f', 'b', 'a'])
    expect(await list('nobody')).toEqual([])
    expect(rowIds(await Array.fromAsync(sandboxes.iterateAll()))).toEqual(members.map(({ id }) => id))
  })

  test('iterateAll lists every remaining sandbox while others are added and removed', async () => {
    await using fixture = await open()
    const { sandboxes } = fixture.store
    const ids = Array.from({ length: 500 }, (_, i) => `s${String(i).padStart(4, '0')}`)
    await Promise.all(ids.map((id) => sandboxes.add(sandboxRow({ id }))))
    const listed: string[] = []
    for await (const { id } of sandboxes.iterateAll()) {
      listed.push(id)
      if (listed.length % 100 === 0) {
        await sandboxes.remove(id)
        await sandboxes.add(sandboxRow({ id: `r${id}` }))
      }
    }
    expect(listed).toEqual(ids)
  })
}

function claimContract(open: OpenStore): void {
  test('a claim assigns a running sandbox of the pool to an owner, the oldest is listed first', async () => {
    await using fixture = await open({ now: () => 50 })
    const { sandboxes } = fixture.store
    const rows = [
      { id: 'a', created_at: 3 },
      { id: 'b', created_at: 2 },
      { id: 'starting', created_at: 1, status: 'STARTING' },
      { id: 'gone', created_at: 1, wanted: 'gone' },
      { id: 'owned', created_at: 1, owner: 'bob' },
      { id: 'large', created_at: 1, spec: 'large' },
    ] as const
    for (const row of rows) await sandboxes.add(sandboxRow({ owner: null, status: 'RUNNING', ...row }))
    expect(rowIds(await sandboxes.listPooled('small'))).toEqual(['b', 'a'])
    const sealed = Buffer.from('of alice')
    const members = { owner: 'alice', org: 'o', used_at: 7, sealed }
    expect(await sandboxes.claim('b', members)).toEqual(
      sandboxRow({ ...members, id: 'b', created_at: 2, changed_at: 50, status: 'RUNNING' }),
    )
    for (const id of ['starting', 'gone', 'owned', 'b', 'unknown'])
      expect(await sandboxes.claim(id, { owner: 'carol', sealed: Buffer.from('of carol') })).toBeUndefined()
    expect(rowIds(await sandboxes.listPooled('small'))).toEqual(['a'])
  })

  test('a repeated claim returns what it has assigned, another one of the same owner does not', async () => {
    await using fixture = await open()
    const { sandboxes } = fixture.store
    await sandboxes.add(sandboxRow({ id: 'a', owner: null, status: 'RUNNING' }))
    const claim = (of: string) => sandboxes.claim('a', { owner: 'alice', sealed: Buffer.from(of) })
    const ids = [await claim('1'), await claim('1'), await claim('2'), await claim('1')]
    expect(ids.map((row) => row?.id)).toEqual(['a', 'a', undefined, 'a'])
  })

  test('a claim of one that was started again since it was listed gets nothing', async () => {
    await using fixture = await open()
    const { sandboxes } = fixture.store
    const row = sandboxRow({ id: 'a', owner: null, status: 'RUNNING' })
    await sandboxes.add(row)
    const renewed = Buffer.from('with another key')
    await sandboxes.update('a', { sealed: renewed, epoch: 'second' })
    const members = { owner: 'alice', sealed: Buffer.from('of alice') }
    expect(await sandboxes.claim('a', members, row.sealed)).toBeUndefined()
    expect(await sandboxes.claim('a', members, renewed)).toMatchObject({ owner: 'alice' })
    expect(await sandboxes.claim('a', members, renewed)).toMatchObject({ owner: 'alice' })
  })

  test('of concurrent claims one gets the sandbox', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 12 }), async (ids) => {
        await using fixture = await open()
        const { sandboxes } = fixture.store
        for (const id of ['a', 'b', 'c'])
          await sandboxes.add(sandboxRow({ id, owner: null, status: 'RUNNING' }))
        const claims = ids.map((id, n) => sandboxes.claim(id, { owner: `u${n}`, sealed: Buffer.from([n]) }))
        const claimed = (await Promise.all(claims)).filter((row) => row !== undefined)
        expect(rowIds(claimed).toSorted()).toEqual([...new Set(ids)].toSorted())
        const all = await Array.fromAsync(sandboxes.iterateAll())
        expect(all.filter((row) => row.owner !== null).length).toBe(claimed.length)
        for (const row of claimed) expect(all).toContainEqual(row)
      }),
      { numRuns: 30 },
    )
  })
}

function conversationContract(open: OpenStore): void {
  test('a conversation is written once, returned again, changed and removed', async () => {
    await using fixture = await open()
    const { conversations } = fixture.store
    const row = conversationRow({ id: 'a', org: 'o', parent: 'p', title: 'Größe', status: 'idle' })
    expect(await conversations.add(row)).toEqual({ row, created: true })
    expect(await conversations.add({ ...row, owner: 'bob' })).toEqual({ row, created: false })
    const changed = { ...row, title: 'ΣΑΣ', updated_at: 9, members: '{"public":true}' }
    const { title, updated_at, members } = changed
    expect(await conversations.update('a', { title, updated_at, members })).toEqual(changed)
    expect(await conversations.update('b', { title })).toBeUndefined()
    const reopened = await fixture.reopen()
    expect(await reopened.conversations.get(['a', 'b'])).toEqual([changed, undefined])
    expect(await reopened.conversations.update('a', { title: null, status: null })).toEqual({
      ...changed,
      title: null,
      status: null,
    })
    expect(await reopened.conversations.remove('a')).toBe(true)
    expect(await reopened.conversations.remove('a')).toBe(false)
    expect(await reopened.conversations.get(['a'])).toEqual([undefined])
  })

  test('conversations of a sandbox and of a parent are listed oldest first, for all owners', async () => {
    await using fixture = await open()
    const { conversations } = fixture.store
    const rows = [
      { id: 'a', created_at: 3 },
      { id: 'b', created_at: 1, parent: 'a', owner: 'bob' },
      { id: 'c', created_at: 2, parent: 'a', sandbox: 's2' },
    ]
    for (const row of rows) await conversations.add(conversationRow(row))
    expect(rowIds(await conversations.listBySandbox('s1'))).toEqual(['b', 'a'])
    expect(rowIds(await conversations.listChildren('a'))).toEqual(['b', 'c'])
    expect(await conversations.listChildren('b')).toEqual([])
  })

  test('titles are searched ignoring case and without patterns', async () => {
    await using fixture = await open()
    const { conversations } = fixture.store
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

function taskContract(open: OpenStore): void {
  test('a start task is written, changed and found; unfinished ones are listed for all owners', async () => {
    await using fixture = await open()
    const { startTasks } = fixture.store
    const row = taskRow({ id: 'a', quota_day: '2026-01-31', created_at: 2 })
    await startTasks.add(row)
    await startTasks.add(taskRow({ id: 'b', owner: null, conversation: 'c' }))
    await startTasks.add(taskRow({ id: 'd', status: 'ERROR' }))
    await expect(startTasks.add(row)).rejects.toThrow('already')
    expect(rowIds(await startTasks.listUnfinished())).toEqual(['b', 'a'])
    const changed = { ...row, status: 'READY', conversation: 'c', quota_day: null, updated_at: 5 }
    const { status, conversation, quota_day, updated_at } = changed
    expect(await startTasks.update('a', { status, conversation, quota_day, updated_at })).toEqual(changed)
    expect(await startTasks.update('x', { status })).toBeUndefined()
    const { startTasks: again } = await fixture.reopen()
    expect(rowIds(await again.listUnfinished())).toEqual(['b'])
    expect(await again.get(['x', 'a'])).toEqual([undefined, changed])
    await again.removeByConversation('c')
    expect(rowIds(await again.get(['a', 'b', 'd']))).toEqual([undefined, undefined, 'd'])
  })
}

function usersContract(open: OpenStore): void {
  test('users and organisations are added once, changed, and listed newest first', async () => {
    await using fixture = await open()
    const { users: people } = fixture.store
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
    const reopened = (await fixture.reopen()).users
    expect(await reopened.getUser('alice')).toEqual(user)
    expect(await reopened.getUser('nobody')).toBeUndefined()
    expect(await reopened.updateUser('alice', { is_admin: false, org: 'o' })).toEqual({
      ...user,
      is_admin: false,
      org: 'o',
    })
    expect(await reopened.updateUser('nobody', { name: 'N' })).toBeUndefined()
    expect(await reopened.updateOrg('o', { daily_conversation_limit: 3 })).toEqual({
      ...org,
      daily_conversation_limit: 3,
    })
    expect(await reopened.getOrg('o')).toMatchObject({ daily_conversation_limit: 3 })
    expect(await reopened.updateOrg('x', { name: 'N' })).toBeUndefined()
    expect(rowIds(await walkPages((query) => reopened.listUsers(query), 1))).toEqual(['bob', 'alice'])
    expect(rowIds(await walkPages((query) => reopened.listOrgs(query), 1))).toEqual(['p', 'o'])
  })

  test('a user is a member of the organisations that it joined and did not leave', async () => {
    await using fixture = await open()
    const { users: people } = fixture.store
    for (const id of ['alice', 'bob']) await people.addUser(userRow({ id }))
    for (const id of ['p', 'o']) await people.addOrg(orgRow({ id, created_at: id === 'p' ? 1 : 2 }))
    for (const org of ['o', 'p', 'o']) await people.addMember(org, 'alice')
    await people.addMember('o', 'bob')
    expect(rowIds(await people.listOrgsOfUser('alice'))).toEqual(['p', 'o'])
    expect([await people.removeMember('o', 'alice'), await people.removeMember('o', 'alice')]).toEqual([
      true,
      false,
    ])
    expect(rowIds(await people.listOrgsOfUser('alice'))).toEqual(['p'])
    expect(rowIds(await people.listOrgsOfUser('bob'))).toEqual(['o'])
    for (const [org, user] of [
      ['x', 'alice'],
      ['o', 'nobody'],
    ] as const)
      await expect(people.addMember(org, user)).rejects.toMatchObject({ code: 'not_found' })
  })
}

function keyContract(open: OpenStore): void {
  test('a key is found by its hash, belongs to its user, and has its latest use', async () => {
    await using fixture = await open()
    const { users } = fixture.store
    for (const id of ['alice', 'bob']) await users.addUser(userRow({ id }))
    const key = keyRow({ id: 'k', scopes: ['read', 'write'], org: 'o', expires_at: 9, not_before: 3 })
    await users.addKey(key)
    await users.addKey(keyRow({ id: 'l', created_at: 2 }))
    await users.addKey(keyRow({ id: 'm', user: 'bob' }))
    await expect(users.addKey(key)).rejects.toThrow('already')
    await expect(users.addKey(keyRow({ id: 'n', user: 'nobody' }))).rejects.toMatchObject({
      code: 'not_found',
    })
    expect(await users.findKeyByHash('hash of k')).toEqual(key)
    expect(await users.findKeyByHash('k')).toBeUndefined()
    for (const at of [5, 7, 6]) await users.markKeyUsed('k', at)
    expect(await users.findKeyByHash('hash of k')).toEqual({ ...key, used_at: 7 })
    expect(rowIds(await users.listKeys('alice'))).toEqual(['l', 'k'])
    expect(await users.countKeys()).toBe(3)
    expect([await users.removeKey('bob', 'k'), await users.removeKey('alice', 'k')]).toEqual([false, true])
    expect(await users.findKeyByHash('hash of k')).toBeUndefined()
    await users.removeKeys('alice')
    expect([await users.listKeys('alice'), rowIds(await users.listKeys('bob'))]).toEqual([[], ['m']])
    expect(await users.getUser('alice')).toBeDefined()
  })

  test('a new user with the id of a removed one inherits nothing', async () => {
    await using fixture = await open()
    const { users, documents, quota, startTasks } = fixture.store
    await users.addOrg(orgRow({ id: 'o' }))
    for (const id of ['alice', 'bob']) {
      await users.addUser(userRow({ id }))
      await users.addMember('o', id)
      await users.addKey(keyRow({ id: `key of ${id}`, user: id }))
      await documents.update(id, 'secrets', () => Buffer.from('s'))
      await startTasks.add(taskRow({ id: `task of ${id}`, owner: id, quota_day: '2026-01-31' }))
    }
    expect([await users.removeUser('alice'), await users.removeUser('alice')]).toEqual([true, false])
    await users.addUser(userRow({ id: 'alice' }))
    const left = async (id: string) => [
      (await users.listOrgsOfUser(id)).length,
      (await users.listKeys(id)).length,
      (await documents.get(id, 'secrets'))?.length ?? 0,
      await quota.getUsed(id, '2026-01-31'),
    ]
    expect(await left('alice')).toEqual([0, 0, 0, 0])
    expect(await left('bob')).toEqual([1, 1, 1, 1])
  })
}

function quotaContract(open: OpenStore): void {
  test('a start task takes a slot and gives it back once, never above the limit', async () => {
    const ask = fc.record({
      kind: fc.constantFrom('start', 'start', 'fail'),
      user: fc.constantFrom('a', 'b'),
      day: fc.constantFrom('2026-01-31', '2026-02-01'),
      limit: fc.integer({ min: -1, max: 4 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(ask, { maxLength: 8 }), { maxLength: 8 }), async (rounds) => {
        await using fixture = await open()
        const { quota, startTasks } = fixture.store
        /** The tasks that hold a slot. */
        const model = new Map<string, readonly string[]>()
        let made = 0
        for (const round of rounds) {
          const steps = round.map(({ kind, user, day, limit }) => {
            const held = model.get(user + day) ?? []
            if (kind === 'fail') {
              model.set(user + day, held.slice(1))
              // None that holds a slot: one that is missing.
              const id = held[0] ?? 'none'
              return {
                run: () => startTasks.update(id, { quota_day: null }).then(() => {}),
                expected: undefined,
              }
            }
            const id = `t${made++}`
            const isAdded = held.length < limit
            const then = isAdded ? [...held, id] : held
            model.set(user + day, then)
            const row = taskRow({ id, owner: user, quota_day: day })
            return {
              run: () => startTasks.add(row, { dailyLimit: limit }),
              expected: { isAdded, used: then.length },
            }
          })
          const answers = steps.map(({ run }) => run())
          expect(await Promise.all(answers)).toEqual(steps.map(({ expected }) => expected))
        }
        for (const [place, { length }] of model)
          expect(await quota.getUsed(place.slice(0, 1), place.slice(1))).toBe(length)
      }),
      { numRuns: 40 },
    )
  })
}

function messageContract(open: OpenStore): void {
  test('messages wait in order of insertion, up to a limit', async () => {
    await using fixture = await open()
    const { pendingMessages } = fixture.store
    const add = (id: string, target: string, max = 3) => pendingMessages.add(messageRow(id, target), max)
    const places = await Promise.all(['z', 'y', 'x', 'w'].map((id) => add(id, 'task-1')))
    expect(places).toEqual([1, 2, 3, undefined])
    expect(await add('y', 'task-1')).toBe(2)
    expect(await add('v', 'c')).toBe(1)
    expect(await add('u', 'd', 0)).toBeUndefined()
    await pendingMessages.remove('y')
    await pendingMessages.remove('nothing')
    expect(await add('t', 'task-1')).toBe(3)
    const reopened = (await fixture.reopen()).pendingMessages
    expect(await reopened.list('task-1')).toEqual(['z', 'x', 't'].map((id) => messageRow(id, 'task-1')))
    expect(await reopened.list('c')).toEqual([messageRow('v', 'c')])
  })
}

function overviewContract(open: OpenStore): void {
  test('sandboxes of all users are filtered, and walked in each order while rows change', async () => {
    await using fixture = await open()
    const { sandboxes, conversations, users } = fixture.store
    await users.addUser(userRow({ id: 'u1', name: 'Ann_Lee', email: 'ann@example.org' }))
    const metrics = (cost: number) => JSON.stringify({ metrics: { accumulated_cost: cost } })
    for (let n = 0; n < 12; n++) {
      const id = `s${String(n).padStart(2, '0')}`
      const more = {
        owner: n % 3 === 0 ? 'u1' : 'bob',
        org: n < 6 ? 'o' : null,
        detail: n === 5 ? '100% full' : null,
      }
      await sandboxes.add(sandboxRow({ id, created_at: n, used_at: (n * 5) % 12, ...more }))
      await conversations.add(conversationRow({ id: `c${id}`, sandbox: id, owner: more.owner }))
      await conversations.update(`c${id}`, { members: metrics((n * 7) % 12) })
    }
    await sandboxes.add(sandboxRow({ id: 'pooled', owner: null }))
    await sandboxes.update('s01', { wanted: 'gone' })
    await sandboxes.update('s02', { wanted: 'archived' })
    await sandboxes.update('s03', { status: 'ERROR' })
    const all = Array.from({ length: 12 }, (_, n) => n).filter((n) => n !== 1)
    const id = (n: number) => `s${String(n).padStart(2, '0')}`
    const by = {
      CREATED_AT: (n: number) => n,
      USED_AT: (n: number) => (n * 5) % 12,
      COST: (n: number) => (n * 7) % 12,
    }
    for (const [order, key] of Object.entries(by)) {
      const ascending = [...all].sort((a, b) => key(a) - key(b)).map(id)
      for (const [sort_order, expected] of [
        [order, ascending],
        [`${order}_DESC`, [...ascending].reverse()],
      ] as const) {
        const search = (query: PageQuery) =>
          sandboxes.searchAll({ ...query, sort_order: sort_order as 'COST' })
        expect(rowIds(await walkPages(search, 4)), sort_order).toEqual(expected)
      }
    }
    // A row that comes or goes between two pages moves no other.
    const search = (query: PageQuery) => sandboxes.searchAll({ ...query, sort_order: 'CREATED_AT_DESC' })
    let round = 0
    const walked = await walkPages(search, 3, async () => {
      await sandboxes.add(sandboxRow({ id: `new${round}`, created_at: 100 + round }))
      if (round++ === 0) await sandboxes.update('s09', { wanted: 'gone' })
    })
    expect(rowIds(walked)).toEqual([...all].reverse().map(id))
    const find = async (filter: SandboxFilter) =>
      rowIds((await sandboxes.searchAll({ limit: 100, sort_order: 'CREATED_AT', ...filter })).items)
    expect(await find({ owner: 'u1' })).toEqual(['s00', 's03', 's06'])
    expect(await find({ org: 'o' })).toEqual(['s00', 's02', 's03', 's04', 's05'])
    expect(await find({ status: 'MISSING' })).toEqual(['s02'])
    expect(await find({ status: 'ERROR', org: 'o' })).toEqual(['s03'])
    expect(await find({ text: '0% F' })).toEqual(['s05'])
    expect(await find({ text: 'ann_' })).toEqual(['s00', 's03', 's06'])
    expect(await find({ text: 'a_n' })).toEqual([])
    expect(await find({ text: '\\' })).toEqual([])
    expect(await find({ text: 'S1' })).toEqual(['s10', 's11'])
    expect(Object.fromEntries(await sandboxes.totals(['s03', 's04', 'x']))).toEqual({
      s03: { cost: 9_000_000, conversations: 1 },
      s04: { cost: 4_000_000, conversations: 1 },
    })
  })

  test('conversations of all users are filtered, and walked in each order', async () => {
    await using fixture = await open()
    const { conversations } = fixture.store
    for (let n = 0; n < 6; n++) {
      const more = {
        owner: n % 2 === 0 ? 'a' : 'b',
        org: n < 3 ? 'o' : null,
        title: n === 4 ? 'Straße' : null,
      }
      const times = { created_at: n, updated_at: (n * 5) % 6 }
      await conversations.add(
        conversationRow({ id: `c${n}`, parent: n === 5 ? 'c0' : null, ...more, ...times }),
      )
    }
    for (let n = 0; n < 6; n++)
      await conversations.update(`c${n}`, {
        status: n === 2 ? 'running' : 'idle',
        members: JSON.stringify({ metrics: { accumulated_cost: (n * 5 + 1) % 6 } }),
      })
    const walk = async (sort_order: AllConversationsQuery['sort_order']) =>
      rowIds(await walkPages((query) => conversations.searchAll({ ...query, sort_order }), 2)).join(' ')
    expect(await walk('CREATED_AT')).toBe('c0 c1 c2 c3 c4 c5')
    expect(await walk('UPDATED_AT_DESC')).toBe('c1 c2 c3 c4 c5 c0')
    expect(await walk('COST')).toBe('c1 c0 c5 c4 c3 c2')
    expect(await walk('COST_DESC')).toBe('c2 c3 c4 c5 c0 c1')
    const find = async (filter: Partial<AllConversationsQuery>) =>
      rowIds((await conversations.searchAll({ limit: 9, sort_order: 'CREATED_AT', ...filter })).items).join(
        ' ',
      )
    expect(await find({ owner: 'b' })).toBe('c1 c3 c5')
    expect(await find({ org: 'o', status: 'idle' })).toBe('c0 c1')
    expect(await find({ title: 'STRASS' })).toBe('')
    expect(await find({ title: 'STRAß' })).toBe('c4')
  })
}

function usageContract(open: OpenStore): void {
  const day = 86_400_000_000
  const report = (model: string, cost: number, prompt_tokens: number) =>
    JSON.stringify({
      llm_model: model,
      metrics: { accumulated_cost: cost, accumulated_token_usage: { prompt_tokens } },
    })
  const days = { from: '1970-01-01', to: '9999-12-31' }

  test('usage is the difference of reports, once each, by day, user, organisation and model', async () => {
    let now = 0
    await using fixture = await open({ now: () => now })
    const { conversations } = fixture.store
    await conversations.add(conversationRow({ id: 'c', owner: 'ann', org: 'o' }))
    await conversations.add(conversationRow({ id: 'd', owner: 'bob' }))
    await conversations.update('c', { members: report('m', 0.1, 10) })
    await conversations.update('c', { members: report('m', 0.1, 10) })
    await conversations.update('c', { title: 'only a title' })
    now = day
    await conversations.update('c', { members: report('n', 0.35, 15) })
    // An older report that comes late takes nothing back.
    await conversations.update('d', { members: report('m', 1, 7) })
    await conversations.update('d', { members: report('m', 0.5, 7) })
    // Nor does a row that was written without them, after which they come again.
    for (const members of ['{}', report('m', 1, 7)]) await conversations.update('d', { members })
    const store = await fixture.reopen()
    const sum = async (by: UsageQuery['by'], more: Partial<UsageQuery> = {}) =>
      (await store.usage.sum({ by, ...days, ...more })).map(
        ({ key, conversations: count, cost, prompt_tokens }) => [key, count, cost, prompt_tokens],
      )
    expect(await sum('user')).toEqual([
      ['ann', 1, 350_000, 15],
      ['bob', 1, 1_000_000, 7],
    ])
    expect(await sum('model')).toEqual([
      ['m', 2, 1_100_000, 17],
      ['n', 1, 250_000, 5],
    ])
    expect(await sum('day')).toEqual([
      ['1970-01-01', 1, 100_000, 10],
      ['1970-01-02', 2, 1_250_000, 12],
    ])
    expect(await sum('user', { org: 'o' })).toEqual([['ann', 1, 350_000, 15]])
    expect(await sum('user', { from: '1970-01-02', org: 'o' })).toEqual([['ann', 1, 250_000, 5]])
    const organizations = await sum('organization')
    expect(organizations).toContainEqual([null, 1, 1_000_000, 7])
    expect(organizations).toContainEqual(['o', 1, 350_000, 15])
  })

  test('whatever a sandbox reports, sums stay numbers', async () => {
    await using fixture = await open()
    const { conversations, usage } = fixture.store
    const odd = [
      '{"metrics":null}',
      '{"metrics":{"accumulated_cost":1e300}}',
      '{"metrics":{"accumulated_cost":-5}}',
    ]
    for (const [at, members] of odd.entries()) {
      await conversations.add(conversationRow({ id: `c${at}` }))
      await conversations.update(`c${at}`, { members })
    }
    expect(await usage.sum({ by: 'model', ...days })).toMatchObject([{ key: 'unknown', cost: 1e12 }])
  })

  test('the time of sandboxes counts from RUNNING to any other status, and to their end', async () => {
    let now = day - 30
    await using fixture = await open({ now: () => now })
    const { sandboxes, usage } = fixture.store
    await sandboxes.add(sandboxRow({ id: 'a', owner: 'ann', org: 'o', changed_at: now }))
    await sandboxes.add(sandboxRow({ id: 'pooled', owner: null, status: 'RUNNING', changed_at: 0 }))
    await sandboxes.update('a', { status: 'RUNNING' })
    now = day + 70
    await sandboxes.update('a', { detail: 'the same status' })
    await sandboxes.update('a', { status: 'PAUSED' })
    now = day + 100
    await sandboxes.update('a', { status: 'STARTING' })
    await sandboxes.update('a', { status: 'RUNNING' })
    now = day + 105
    await sandboxes.remove('a')
    await sandboxes.remove('pooled')
    expect(await usage.sumSandboxTime({ by: 'day', ...days })).toEqual([
      { key: '1970-01-01', micros: 30 },
      { key: '1970-01-02', micros: 75 },
    ])
    expect(await usage.sumSandboxTime({ by: 'organization', ...days })).toEqual([{ key: 'o', micros: 105 }])
    expect(await usage.sumSandboxTime({ by: 'model', ...days })).toEqual([])
  })
}

function sandboxEventContract(open: OpenStore): void {
  const day = 86_400_000_000

  test('each change of a sandbox is an event with its actor, which outlives the sandbox', async () => {
    let now = 1
    await using fixture = await open({ now: () => now++ })
    const { sandboxes } = fixture.store
    await sandboxes.add(sandboxRow({ id: 'a' }), { actor: 'user:ann' })
    await sandboxes.update('a', { status: 'RUNNING' })
    await sandboxes.update('a', { used_at: 9 })
    await sandboxes.update('a', { wanted: 'paused' }, { by: { detail: 'it is idle' } })
    await sandboxes.update('a', { status: 'PAUSED' })
    await sandboxes.update('a', { wanted: 'running', status: 'STARTING' }, { by: { actor: 'user:ann' } })
    await sandboxes.update('a', { status: 'ERROR', detail: 'no memory' })
    await sandboxes.update('a', { status: 'STARTING' }, { by: { actor: 'user:root', kind: 'restart' } })
    await sandboxes.update('a', { wanted: 'gone' }, { by: { actor: 'user:root' } })
    await sandboxes.remove('a')
    const store = await fixture.reopen()
    const events = await store.sandboxEvents.list('a')
    expect(events.map(({ kind, actor, detail }) => [kind, actor, detail])).toEqual([
      ['create', 'user:ann', null],
      ['running', null, null],
      ['pause', null, 'it is idle'],
      ['paused', null, null],
      ['resume', 'user:ann', null],
      ['failed', null, 'no memory'],
      ['restart', 'user:root', null],
      ['delete', 'user:root', null],
      ['deleted', null, null],
    ])
    const [first] = events
    expect(first).toMatchObject({ sandbox: 'a', owner: 'alice', org: null })
    // A claim from the warm pool is the beginning for its owner.
    await store.sandboxes.add(sandboxRow({ id: 'p', owner: null, status: 'RUNNING' }))
    await store.sandboxes.update('p', { status: 'ERROR' })
    await store.sandboxes.update('p', { status: 'RUNNING' })
    await store.sandboxes.claim('p', { owner: 'bob', sealed: Buffer.from('of bob') })
    expect(await store.sandboxEvents.list('p')).toMatchObject([{ kind: 'create', actor: 'user:bob' }])
  })

  test('events and logs are bounded by number and age', async () => {
    let now = 1
    await using fixture = await open({ now: () => now })
    const { sandboxes, sandboxEvents } = fixture.store
    const event = { owner: 'a', org: null, kind: 'exec', actor: null }
    for (let n = 0; n < 205; n++)
      await sandboxEvents.add({ ...event, sandbox: 's', detail: String(n), created_at: 1 })
    const kept = await sandboxEvents.list('s')
    expect([kept.length, kept[0]?.detail, kept.at(-1)?.detail]).toEqual([200, '5', '204'])
    const { users } = fixture.store
    for (const id of ['a', 'leaver']) await users.addUser(userRow({ id }))
    const log = { owner: 'a', org: null, text: 'out\u0000put' }
    await sandboxEvents.saveLog({ ...log, sandbox: 's', created_at: 1 })
    await sandboxEvents.saveLog({ ...log, sandbox: 's', text: 'newer', created_at: 2 })
    expect(await sandboxEvents.getLog('s')).toMatchObject({ sandbox: 's', text: 'newer', created_at: 2 })
    await sandboxEvents.saveLog({ ...log, owner: 'leaver', org: 'o', sandbox: 's', created_at: 3 })
    expect(await sandboxEvents.getLog('s')).toMatchObject({ owner: 'leaver', org: 'o' })
    await sandboxEvents.saveLog({ ...log, sandbox: 's', created_at: 4 })
    await sandboxes.add(sandboxRow({ id: 'living' }))
    await sandboxEvents.add({ ...event, owner: 'leaver', sandbox: 'l', detail: null, created_at: 1 })
    await sandboxEvents.saveLog({ ...log, owner: 'leaver', sandbox: 'l', created_at: 2 })
    await users.removeUser('leaver')
    await sandboxEvents.saveLog({ ...log, owner: 'leaver', sandbox: 'l', created_at: 3 })
    expect([await sandboxEvents.list('l'), await sandboxEvents.getLog('l')]).toEqual([[], undefined])
    now = 31 * day
    await sandboxes.add(sandboxRow({ id: 'last' }))
    await sandboxes.remove('last')
    await sandboxEvents.saveLog({ ...log, sandbox: 'last', created_at: now })
    expect(await sandboxEvents.list('s')).toEqual([])
    expect(await sandboxEvents.list('living')).toHaveLength(1)
    expect(await sandboxEvents.getLog('s')).toBeUndefined()
    expect((await sandboxEvents.getLog('last'))?.text).toBe('out\u0000put')
  })
}
