import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test, vi } from 'vitest'
import { bashStep, finishStep } from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../../support/agent-server-api.ts'
import { runCli, runJson } from '../../support/cli.ts'

/** What takes space, and how it is given back. */
vi.setConfig({ testTimeout: 120_000 })

const mib = 1024 ** 2

async function importBytes(server: OwnAgentServer, count: number, meta: object = {}): Promise<string> {
  const events = Array.from({ length: count }, (_, i) =>
    messageLine(`e${i}`, '2026-01-01T00:00:00Z', `${i} `.repeat(10_000)),
  )
  return await server.api.import(toJsonLines(meta, ...events))
}

test('prune deletes what has not changed for long, and nothing else', async () => {
  await using server = await OwnAgentServer.open()
  const env = { SLIPWAY_URL: server.url }
  const old = await importBytes(server, 3)
  const tagged = await importBytes(server, 1, { tags: { keep: 'yes' } })
  const fresh = await importBytes(server, 1)
  await server.stop()
  {
    using db = new DatabaseSync(join(server.data, 'log.db'))
    const age = (id: string, days: number) =>
      db
        .prepare('UPDATE conversation SET updated_at = ? WHERE id = ?')
        .run((Date.now() - days * 86_400_000) * 1000, id)
    age(old, 40)
    age(tagged, 35)
    age(fresh, 10)
  }
  await server.start()
  Object.assign(env, { SLIPWAY_URL: server.url })
  const lines = async (...flags: string[]) => {
    const { stdout, stderr, code } = await runCli(['--json', 'prune', ...flags], env)
    expect([code, stderr]).toEqual([0, expect.stringContaining('conversations')])
    return stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
  }
  const dry = await lines('--older-than', '30d', '--dry-run')
  expect(dry.map(({ id, deleted }) => [id, deleted])).toEqual([
    [old, false],
    [tagged, false],
  ])
  expect(await server.api.count(old)).toBe(3)
  expect((await lines('--older-than', '30d', '--keep-tagged')).map(({ id }) => id)).toEqual([old])
  expect((await server.api.requestJson(`/api/conversations/${old}`)).status).toBe(404)
  expect(await server.api.count(tagged)).toBe(1)
  expect((await lines('--older-than', '1h')).map(({ id }) => id)).toEqual([tagged, fresh])
  for (const flags of [[], ['--older-than', '30'], ['--older-than', 'x']])
    expect(await runCli(['prune', ...flags], env)).toMatchObject({ code: 2, stdout: '' })
})

test('limits of stored events refuse with 507 and the limit, and a run that meets one ends and says so', async () => {
  await using server = await OwnAgentServer.open({
    env: { SLIPWAY_MAX_CONVERSATION_MB: '1', SLIPWAY_MAX_STORED_MB: '3' },
  })
  const send = (id: string, bytes: number) =>
    server.api.sendJson('POST', `/api/conversations/${id}/events`, {
      content: [{ type: 'text', text: 'x'.repeat(bytes) }],
    })
  const id = await server.api.import('')
  expect((await send(id, 900_000)).status).toBe(200)
  const full = await send(id, 200_000)
  expect([full.status, JSON.stringify(full.body)]).toEqual([507, expect.stringContaining('1 MiB of events')])
  expect((await send(id, 1_000)).status).toBe(200)
  expect((await server.api.requestJson('/ready')).status).toBe(200)

  const steps = Array.from({ length: 40 }, (_, n) => bashStep(`true ${n} ${'y'.repeat(60_000)}`))
  const run = await server.driver.createScripted([...steps, finishStep()])
  const events = await server.driver.waitUntilIdle(run.id)
  expect(events.at(-1)).toMatchObject({
    kind: expect.stringMatching(/ConversationStateUpdateEvent|ConversationErrorEvent/),
  })
  expect(events.find(({ kind }) => kind === 'ConversationErrorEvent')).toMatchObject({ code: 'StorageError' })
  expect((await server.driver.getInfo(run.id)).execution_status).toBe('error')

  const lines = (count: number) =>
    toJsonLines(
      ...Array.from({ length: count }, (_, i) =>
        messageLine(`e${i}`, '2026-01-01T00:00:00Z', 'z'.repeat(90_000)),
      ),
    )
  const tooLarge = await server.api.fetch('/api/conversations/import', {
    method: 'POST',
    headers: { 'content-type': 'application/x-ndjson' },
    body: lines(15),
  })
  expect(tooLarge.status).toBe(507)
  await server.api.import(lines(9))
  // The sum over all conversations is a second old at most.
  await vi.waitFor(async () => expect((await send(await server.api.import(''), 500_000)).status).toBe(507), {
    timeout: 60_000,
    interval: 200,
  })
  // Deleting makes room.
  await server.api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })
  const other = await server.api.import('')
  await vi.waitFor(async () => expect((await send(other, 50_000)).status).toBe(200), {
    timeout: 60_000,
    interval: 200,
  })
})

test('conversations without tags are deleted after the retention time', async () => {
  await using server = await OwnAgentServer.open()
  const old = await importBytes(server, 2)
  const tagged = await importBytes(server, 1, { tags: { keep: 'yes' } })
  const fresh = await importBytes(server, 1)
  await server.stop()
  {
    using db = new DatabaseSync(join(server.data, 'log.db'))
    const age = db.prepare('UPDATE conversation SET updated_at = updated_at - ? WHERE id <> ?')
    age.run(40 * 86_400_000_000, fresh)
  }
  await server.start({ SLIPWAY_RETENTION_DAYS: '30' })
  const status = async (id: string) => (await server.api.requestJson(`/api/conversations/${id}`)).status
  await vi.waitFor(async () => expect(await status(old)).toBe(404), { timeout: 60_000, interval: 200 })
  expect([await status(tagged), await status(fresh)]).toEqual([200, 200])
})

test('du names what takes space; deleting gives it back while the server runs; compact does the rest', async () => {
  await using server = await OwnAgentServer.open()
  const large = await importBytes(server, 250)
  const small = await importBytes(server, 5)
  const usage = await runJson(['du', '--data', server.data])
  expect(usage.log.conversations.map(({ id }: { id: string }) => id)).toEqual([large, small])
  expect(usage.log.conversations[0]).toMatchObject({ events: 250 })
  expect(usage.log.conversations[0].bytes).toBeGreaterThan(5 * mib)
  expect(usage.total_bytes).toBeGreaterThan(5 * mib)
  expect(usage.entries.map(({ path }: { path: string }) => path)).toContain('log.db')
  expect((await runCli(['du', '--data', server.data])).stdout).toContain(large)

  expect((await server.api.fetch(`/api/conversations/${large}`, { method: 'DELETE' })).status).toBe(200)
  const logSize = () => statSync(join(server.data, 'log.db')).size
  await vi.waitFor(() => expect(logSize()).toBeLessThan(3 * mib), { timeout: 60_000, interval: 100 })
  expect(await server.api.count(small)).toBe(5)

  const before = await server.api.export(small)
  await server.stop()
  const { databases } = await runJson(['compact', '--data', server.data])
  expect(databases.map(({ name }: { name: string }) => name)).toContain('log.db')
  await server.start()
  expect((await server.api.export(small)).equals(before)).toBe(true)
})

test('compact gives space back while the server runs, and appends continue meanwhile', async () => {
  await using server = await OwnAgentServer.open()
  const small = await importBytes(server, 5)
  await server.stop()
  {
    // Free pages as a server leaves them that was killed between removing rows and giving their space back.
    using db = new DatabaseSync(join(server.data, 'log.db'))
    db.exec('CREATE TABLE filling (bytes BLOB)')
    const insert = db.prepare('INSERT INTO filling VALUES (randomblob(65536))')
    for (let n = 0; n < 500; n++) insert.run()
    db.exec('DROP TABLE filling')
  }
  await server.start()
  const env = { SLIPWAY_URL: server.url }
  const before = await server.api.export(small)
  const usage = async () => (await runJson(['du', '--data', server.data])).log.free_bytes
  expect(await usage()).toBeGreaterThan(25 * mib)
  const { id } = await server.driver.createScripted([{ text: 'Done.' }])
  let isDone = false
  let appended = 0
  const appending = (async () => {
    for (; !isDone; appended++) {
      const path = `/api/conversations/${id}/events`
      expect(
        (await server.api.sendJson('POST', path, { content: [{ type: 'text', text: `${appended}` }] }))
          .status,
      ).toBe(200)
    }
  })()
  const result = await runJson(['compact', '--data', server.data], env)
  isDone = true
  await appending
  expect(appended).toBeGreaterThan(0)
  expect(result.databases).toContainEqual(expect.objectContaining({ name: 'log.db', needs_stop: false }))
  expect(result.freed_bytes).toBeGreaterThan(25 * mib)
  // A reader may hold the checkpoint up, which is tried again.
  await expect.poll(usage).toBeLessThan(mib)
  await expect.poll(() => statSync(join(server.data, 'log.db')).size).toBeLessThan(3 * mib)
  expect((await server.api.export(small)).equals(before)).toBe(true)
  expect(await runCli(['compact', '--data', server.data], env)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('came back'),
  })
  await using other = await OwnAgentServer.open()
  expect(await runCli(['compact', '--data', other.data], env)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`uses ${server.data}, not ${other.data}`),
  })
})

test('a file of an earlier version keeps its space while the server runs, and compact says what to do', async () => {
  await using server = await OwnAgentServer.open()
  const id = await importBytes(server, 250)
  await server.stop()
  {
    using db = new DatabaseSync(join(server.data, 'log.db'))
    db.exec('PRAGMA auto_vacuum = NONE; VACUUM')
  }
  await server.start()
  expect((await server.api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })).status).toBe(200)
  const { databases } = await runJson(['compact', '--data', server.data], { SLIPWAY_URL: server.url })
  expect(databases).toContainEqual(expect.objectContaining({ name: 'log.db', needs_stop: true }))
  expect(await runCli(['compact', '--url', server.url])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('of an earlier version: stop the server'),
  })
  await server.stop()
  const offline = await runJson(['compact', '--data', server.data])
  expect(offline.freed_bytes).toBeGreaterThan(4 * mib)
})
