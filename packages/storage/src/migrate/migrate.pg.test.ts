import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test, vi } from 'vitest'
import {
  conversationRow,
  keyRow,
  messageRow,
  sandboxRow,
  taskRow,
  userRow,
} from '../control-plane/testing/sample-rows.ts'
import { toReceivedEvent } from '../event-log/received-event.ts'
import { openPostgresControlPlaneStore } from '../postgres/control-plane/control-plane-store.ts'
import { createTestSchema, describePostgres, runSql } from '../postgres/testing/test-database.ts'
import { openControlPlaneStore } from '../sqlite/control-plane/control-plane-store.ts'
import { openStorage } from '../sqlite/storage.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { migrate } from './migrate.ts'

const program = fileURLToPath(new URL('./testing/migrate-process.ts', import.meta.url))
/** Events of the longest log; 1,000,000 shows what a large directory takes. */
const longest = Number(process.env.SLIPWAY_MIGRATE_EVENTS ?? 3_000)
vi.setConfig({ testTimeout: 240_000 + longest })

describePostgres('migration', () => {
  test('logs, records, sealed states, snapshots and cursors are the same there and back', async () => {
    await using schema = await createTestSchema()
    using first = temporaryDirectory()
    using second = temporaryDirectory()
    await fill(first.path)
    {
      await using storage = await openStorage({ directory: first.path })
      await storage.documents.update('', 'settings.sealed', () => Buffer.from([0, 255]))
    }
    // Of an earlier version, which no start has imported.
    writeFileSync(join(first.path, 'workspaces.json'), '{}')
    const original = await readAll(first.path)
    const progress: number[] = []
    const onProgress = ({ events }: { readonly events: number }) => progress.push(events)
    const result = await migrate({ from: first.path, to: schema.url, onProgress })
    expect(result).toMatchObject({ conversations: original.length, rows: undefined })
    expect(progress.at(-1)).toBe(result.events)
    // A repeated call finds everything.
    expect(await migrate({ from: first.path, to: schema.url })).toMatchObject({ events: 0 })
    await migrate({ from: schema.url, to: second.path })
    expect(await readAll(second.path)).toEqual(original)
    {
      await using storage = await openStorage({ directory: second.path })
      const { documents } = storage
      expect([...(await documents.list(''))].sort()).toEqual(['settings.sealed', 'workspaces.json'])
      expect(await documents.get('', 'settings.sealed')).toEqual(Buffer.from([0, 255]))
      await documents.update('', 'settings.sealed', () => Buffer.from([1]))
    }
    await expect(migrate({ from: schema.url, to: second.path })).rejects.toThrow(
      'The document settings.sealed differs in the target',
    )
  })

  test('a migration that was killed continues, and a target that differs is refused', async () => {
    await using schema = await createTestSchema()
    using first = temporaryDirectory()
    using second = temporaryDirectory()
    await fill(first.path)
    const child = spawn(process.execPath, [program, first.path, schema.url], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const exited = once(child, 'exit')
    await Promise.race([once(child.stdout, 'data'), exited])
    child.kill('SIGKILL')
    await exited
    await expect
      .poll(() => migrate({ from: first.path, to: schema.url }).then(() => true), {
        timeout: 60_000 + longest,
      })
      .toBe(true)
    await migrate({ from: schema.url, to: second.path })
    expect(await readAll(second.path)).toEqual(await readAll(first.path))
    const [{ id } = { id: '' }] = await readAll(first.path)
    {
      await using storage = await openStorage({ directory: first.path })
      await storage.log.append(id, [{ kind: 'PauseEvent', source: 'user' }])
    }
    await expect(migrate({ from: first.path, to: schema.url })).rejects.toThrow(
      `${id} differs in the target (updated_at, head)`,
    )
  })

  test('the rows of a control plane are the same there and back', async () => {
    await using schema = await createTestSchema()
    using first = temporaryDirectory()
    using second = temporaryDirectory()
    await (await openStorage({ directory: first.path }))[Symbol.asyncDispose]()
    const rows = {
      sandbox: sandboxRow({ id: 's', detail: 'nul\0 ü', key_hash: 'h', sealed: Buffer.from([0, 255]) }),
      conversation: conversationRow({ id: 'c', title: 'ΣΊΣΥΦΟΣ\0', parent: 'p' }),
      task: taskRow({ id: 't', conversation: 'c', org: 'o', quota_day: '2026-01-31' }),
      user: userRow({ id: 'alice', is_admin: true, daily_conversation_limit: -1 }),
      key: keyRow({ id: 'k', scopes: ['read'] }),
    }
    let ledger = ''
    {
      await using store = await openControlPlaneStore({ directory: first.path })
      ledger = store.id
      await store.users.addUser(rows.user)
      await store.users.addKey(rows.key)
      await store.sandboxes.add(rows.sandbox)
      await store.sandboxes.grantSecrets('s', ['N'])
      await store.conversations.add(rows.conversation)
      await store.startTasks.add(rows.task)
      await store.documents.update('alice', 'd', () => Buffer.from([1, 0, 2]))
      for (const id of ['z', 'y']) await store.pendingMessages.add(messageRow(id, 'c'), 10)
    }
    expect((await migrate({ from: first.path, to: schema.url })).rows).toBe(12)
    const check = async (store: Awaited<ReturnType<typeof openControlPlaneStore>>) => {
      expect(store.id).toBe(ledger)
      expect(await store.sandboxes.get(['s'])).toEqual([rows.sandbox])
      expect(await store.sandboxes.listGrantedSecrets('s')).toEqual(['N'])
      const query = {
        title__contains: 'σίσ',
        include_sub_conversations: true,
        limit: 5,
        sort_order: 'TITLE',
      } as const
      expect((await store.conversations.search({ owner: 'alice' }, query)).items).toEqual([rows.conversation])
      expect(await store.startTasks.get(['t'])).toEqual([rows.task])
      expect(await store.users.getUser('alice')).toEqual(rows.user)
      expect(await store.users.listKeys('alice')).toEqual([rows.key])
      expect(await store.quota.getUsed('alice', '2026-01-31')).toBe(1)
      expect(await store.documents.get('alice', 'd')).toEqual(Buffer.from([1, 0, 2]))
      expect((await store.pendingMessages.list('c')).map(({ id }) => id)).toEqual(['z', 'y'])
    }
    {
      await using store = await openPostgresControlPlaneStore({ url: schema.url })
      await check(store)
      expect(await store.pendingMessages.add(messageRow('x', 'c'), 10)).toBe(3)
      await store.pendingMessages.remove('x')
      await expect(migrate({ from: schema.url, to: second.path })).rejects.toThrow(
        'in use by a sandbox server',
      )
    }
    await migrate({ from: schema.url, to: second.path })
    await using back = await openControlPlaneStore({ directory: second.path })
    await check(back)
  })

  test('no pause of the copy of a control plane ends it, as the read of a long table', async () => {
    await using schema = await createTestSchema()
    using first = temporaryDirectory()
    await (await openStorage({ directory: first.path }))[Symbol.asyncDispose]()
    {
      await using store = await openControlPlaneStore({ directory: first.path })
      await store.sandboxes.add(sandboxRow({ id: 's' }))
    }
    await (await openPostgresControlPlaneStore({ url: schema.url }))[Symbol.asyncDispose]()
    await runSql(
      `CREATE TABLE pause (longest text);
      CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO pause VALUES (current_setting('idle_in_transaction_session_timeout')); RETURN NEW; END $$;
      CREATE TRIGGER note BEFORE INSERT ON sandbox FOR EACH ROW EXECUTE FUNCTION note();
      DELETE FROM ledger`,
      schema.url,
    )
    await migrate({ from: first.path, to: schema.url })
    expect(await runSql('SELECT longest FROM pause', schema.url)).toEqual([{ longest: '0' }])
  })
})

/** A log of received lines, recorded ones where they are, one of our own, one without events. */
async function fill(directory: string): Promise<void> {
  await using storage = await openStorage({ directory })
  const { log, conversations } = storage
  const parent = randomUUID()
  await conversations.create({
    id: parent,
    title: 'Größe\0',
    tags: { a: 'b' },
    request: '{}',
    sealed: Buffer.from([7, 0]),
  })
  const drafts = Array.from({ length: longest }, (_, n) => ({
    kind: n % 3 ? 'PauseEvent' : 'X',
    source: 'user',
    text: `${n}`,
  }))
  for (let at = 0; at < longest; at += 1_000) await log.append(parent, drafts.slice(at, at + 1_000))
  await log.append(parent, [], { record: { status: 'paused', stats: '{"a":1}' } })
  await conversations.saveSnapshot(parent, { position: 2, text: '{}' })
  await conversations.create({ id: randomUUID(), parent, status: 'finished' })
  // Published in the moment of its creation.
  const instant = await storage.startImport(randomUUID())
  await instant.publish({ status: 'idle' })
  const empty = randomUUID()
  await conversations.create({ id: empty })
  await conversations.patch(empty, { title: 'later' })
  await storage.deliveries.listPending('receiver', 10)
  await storage.deliveries.advance('receiver', parent, { position: 5, updated_at: 9 })
  for (const lines of recordedLogs()) {
    const session = await storage.startImport(randomUUID())
    let last: ReturnType<typeof toReceivedEvent> | undefined
    const received = lines.map((line) => {
      const event = toReceivedEvent(Buffer.from(line), JSON.parse(line), { keep: true, last, now: 1 })
      last = event
      return event
    })
    for (let at = 0; at < received.length; at += 500) await session.add(received.slice(at, at + 500))
    await session.publish({ status: 'idle' })
  }
}

function recordedLogs(): string[][] {
  const own = [
    '{"id":"a","kind":"X","timestamp":"2026-01-01T00:00:00","n":1}',
    '{"id":"a","kind":"X","n": 2 }',
    '{ "kind":"Y" }',
  ]
  const { SLIPWAY_DATA } = process.env
  const files =
    SLIPWAY_DATA === undefined ? [] : readdirSync(SLIPWAY_DATA).filter((name) => name.endsWith('.jsonl'))
  const recorded = files.map((name) =>
    readFileSync(join(String(SLIPWAY_DATA), name), 'utf8')
      .split('\n')
      .filter((line) => line !== ''),
  )
  return [own, ...recorded]
}

async function readAll(directory: string) {
  await using storage = await openStorage({ directory })
  const { items } = await storage.conversations.search({ limit: 100, sort_order: 'CREATED_AT' })
  const all: (Record<string, unknown> & { readonly id: string })[] = []
  for (const record of items) {
    const { id, head } = record
    const events = await storage.log.read(id, 0, head)
    const text = Buffer.concat(
      events.map(({ bytes }) => Buffer.concat([bytes, Buffer.from('\n')])),
    ).toString()
    const state = await storage.conversations.getSealedState(id)
    const children = (await storage.conversations.listChildren([id])).flat()
    const instants = events.map(({ instant }) => instant)
    all.push({ ...record, text, state, children, instants })
  }
  const pending = await storage.deliveries.listPending('receiver', 100)
  const cursor = pending.find(({ conversation }) => conversation === all[0]?.id)
  return all.map((one) => ({ ...one, cursor: cursor?.position }))
}
