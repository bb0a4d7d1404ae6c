import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test, vi } from 'vitest'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../../support/agent-server-api.ts'
import { runCli } from '../../support/cli.ts'

/** `slipway doctor` against data directories that were damaged from outside. */
vi.setConfig({ testTimeout: 120_000 })

interface Finding {
  readonly area: string
  readonly level: string
  readonly message: string
  readonly next?: string
}

async function doctor(
  data: string,
  flags: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
) {
  const { stdout, stderr, code } = await runCli(['--json', 'doctor', '--data', data, ...flags], env)
  if (stdout === '') return { code, stderr, findings: [] as Finding[], repaired: [] as string[] }
  const { findings, repaired } = JSON.parse(stdout) as { findings: Finding[]; repaired: string[] }
  return { code, stderr, findings, repaired }
}

/** A stopped server with two conversations of ten events. */
async function stoppedServer() {
  const server = await OwnAgentServer.open()
  const lines = (label: string) =>
    toJsonLines(
      ...Array.from({ length: 10 }, (_, i) =>
        messageLine(`${label}${i}`, '2026-01-01T00:00:00Z', `text ${label} ${i}`),
      ),
    )
  const ids = [await server.api.import(lines('a')), await server.api.import(lines('b'))] as const
  // The index is complete when a search has seen it.
  for (const id of ids) await server.api.search(id, { body: 'text' })
  const exports = await Promise.all(ids.map((id) => server.api.export(id)))
  return { server, ids, exports }
}

function change(data: string, sql: string, name = 'log.db'): void {
  using db = new DatabaseSync(join(data, name))
  db.exec(sql)
}

test('a directory in order is healthy, while a server runs and afterwards', async () => {
  const { server } = await stoppedServer()
  await using _ = server
  for (const flags of [[], ['--deep']])
    expect(await doctor(server.data, flags)).toMatchObject({ code: 0, stderr: '' })
  await server.stop()
  const { code, findings } = await doctor(server.data, ['--deep'])
  expect([code, findings.filter(({ level }) => level === 'error')]).toEqual([0, []])
  for (const area of ['environment', 'data', 'space', 'log.db', 'events', 'index'])
    expect(findings.map((finding) => finding.area)).toContain(area)
  const text = await runCli(['doctor', '--data', server.data])
  expect(text).toMatchObject({ code: 0, stdout: expect.stringContaining('20 events read') })
})

test('settings: an unknown name with the nearest one, an invalid value without it', async () => {
  const { server } = await stoppedServer()
  await using _ = server
  const unknown = await doctor(server.data, [], { SLIPWAY_MAX_CONCURRENT_RUN: 'canary-1' })
  expect(unknown.code).toBe(1)
  expect(unknown.findings).toContainEqual({
    area: 'settings',
    level: 'error',
    message: 'SLIPWAY_MAX_CONCURRENT_RUN is no setting',
    next: 'Is it SLIPWAY_MAX_CONCURRENT_RUNS?',
  })
  const invalid = await doctor(server.data, [], { SLIPWAY_STALL_SECONDS: 'canary-2' })
  expect(invalid.code).toBe(1)
  expect(JSON.stringify(invalid.findings)).toContain('SLIPWAY_STALL_SECONDS')
  expect(JSON.stringify([unknown, invalid])).not.toContain('canary')
})

test('the server of the model is asked, and a file is no data directory', async () => {
  const provider = createServer(({ headers }, response) => {
    response.writeHead(headers.authorization === 'Bearer canary-right' ? 200 : 401).end('{}')
  })
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
  const { port } = provider.address() as AddressInfo
  const ask = async (LLM_API_KEY: string) => {
    const env = {
      LLM_MODEL: 'openai-compatible/near',
      LLM_BASE_URL: `http://127.0.0.1:${port}/v1`,
      LLM_API_KEY,
    }
    const { findings } = await doctor(import.meta.filename, [], env)
    expect(JSON.stringify(findings)).not.toContain('canary')
    expect(findings).toContainEqual(expect.objectContaining({ area: 'data', level: 'error' }))
    return findings.filter(({ area }) => area === 'model')
  }
  expect(await ask('canary-right')).toEqual([expect.objectContaining({ level: 'ok' })])
  expect(await ask('canary-wrong')).toEqual([
    expect.objectContaining({ next: 'Correct LLM_API_KEY, or model.api_key.' }),
  ])
  provider.closeAllConnections()
  await new Promise((resolve) => provider.close(resolve))
  expect(await ask('canary-right')).toEqual([
    expect.objectContaining({ level: 'error', next: 'Start it, or correct LLM_BASE_URL or model.base_url.' }),
  ])
})

test('damaged events are set aside with their bytes, missing ones replaced, and all others stay', async () => {
  const { server, ids, exports } = await stoppedServer()
  await using _ = server
  const [one, two] = ids
  const where = (id: string, position: number) =>
    `row = ${position} + 268435456 * (SELECT ordinal FROM conversation WHERE id = '${id}')`
  const running = await doctor(server.data, ['--repair'])
  expect(running).toMatchObject({ code: 1, stderr: expect.stringContaining('in use by another process') })
  await server.stop()
  change(
    server.data,
    `UPDATE event SET body = CAST(replace(CAST(body AS TEXT), 'text a 3', 'text a 4') AS BLOB) WHERE ${where(one, 4)}`,
  )
  change(server.data, `DELETE FROM event WHERE ${where(one, 7)}`)
  change(server.data, `UPDATE conversation SET head = 9 WHERE id = '${two}'`)
  writeFileSync(join(server.data, '.settings.json.draft'), '{')

  const found = await doctor(server.data, ['--deep'])
  expect(found.code).toBe(1)
  expect(found.findings.filter(({ area }) => area === 'events').map(({ message }) => message)).toEqual([
    `event 4 of conversation ${one} does not match its checksum`,
    `event 7 of conversation ${one} is missing`,
    `event 10 of conversation ${two} is behind the end of the log`,
  ])
  expect(found.findings.every(({ level, next }) => level === 'ok' || next !== undefined)).toBe(true)

  const repaired = await doctor(server.data, ['--repair'])
  expect([repaired.code, repaired.repaired.join('\n')]).toEqual([
    0,
    expect.stringMatching(/event 4 .*event 7 .*ended too early.*\.draft was removed/s),
  ])
  const [folder = ''] = readdirSync(join(server.data, 'damaged'))
  const aside = (name: string) => readFileSync(join(server.data, 'damaged', folder, name), 'utf8')
  expect(readdirSync(join(server.data, 'damaged', folder))).toEqual([`${one}-4`])
  expect(aside(`${one}-4`)).toBe(exports[0]?.toString().split('\n')[3]?.replace('text a 3', 'text a 4'))

  await server.start()
  const [now, other] = await Promise.all(
    ids.map(async (id) => (await server.api.export(id)).toString().split('\n')),
  )
  const before = exports[0]?.toString().split('\n') ?? []
  expect(now).toHaveLength(before.length)
  for (const [index, line] of before.entries())
    if (index === 3 || index === 6)
      expect(JSON.parse(now?.[index] ?? '')).toMatchObject({
        kind: 'ConversationErrorEvent',
        code: 'DamagedEvent',
      })
    else expect(now?.[index]).toBe(line)
  expect(JSON.parse(now?.[3] ?? '').id).toBe('a3')
  expect(other).toEqual(exports[1]?.toString().split('\n'))
  expect(await server.api.count(one)).toBe(10)
  expect((await server.api.search(one, { body: 'text a 8' })).items).toHaveLength(1)
  const more = await server.api.sendJson('POST', `/api/conversations/${two}/events`, {
    content: [{ type: 'text', text: 'more' }],
  })
  expect(more.status).toBe(200)
  expect(await doctor(server.data, ['--deep'])).toMatchObject({ code: 0 })
})

test('a damaged index of the log, a wrong text index and an unpublished import are repaired', async () => {
  const { server, ids, exports } = await stoppedServer()
  await using _ = server
  await server.stop()
  const path = join(server.data, 'log.db')
  change(server.data, 'PRAGMA wal_checkpoint(TRUNCATE)')
  const [page, size] = (() => {
    using db = new DatabaseSync(path)
    const root = db.prepare("SELECT rootpage FROM sqlite_master WHERE name = 'event_instant'").get()
    return [Number(root?.rootpage), Number(db.prepare('PRAGMA page_size').get()?.page_size)]
  })()
  const bytes = readFileSync(path)
  bytes.fill(0, (page - 1) * size + 8, page * size)
  writeFileSync(path, bytes)
  change(
    server.data,
    'UPDATE message SET instant = instant + 1 WHERE row = (SELECT min(row) FROM message)',
    'index.db',
  )

  const found = await doctor(server.data, ['--deep'])
  expect(found.code).toBe(1)
  const areas = found.findings.filter(({ level }) => level === 'error').map(({ area }) => area)
  expect(areas).toEqual(expect.arrayContaining(['log.db', 'index']))
  const repaired = await doctor(server.data, ['--repair'])
  expect([repaired.code, repaired.repaired.join('\n')]).toEqual([
    0,
    expect.stringMatching(
      /^the indexes and pages of log\.db were made again .*what was damaged is in .*text index/s,
    ),
  ])
  expect(existsSync(join(server.data, 'index.db'))).toBe(false)

  change(
    server.data,
    `INSERT INTO leftover SELECT ordinal, head FROM conversation WHERE id = '${ids[0]}';
     INSERT INTO event (row, conversation, id, instant, facet, body, checksum)
       SELECT row + 1, conversation, 'unpublished', instant, facet, body, checksum FROM event
     WHERE conversation = (SELECT ordinal FROM conversation WHERE id = '${ids[0]}') ORDER BY row DESC LIMIT 1`,
  )
  const dropped = await doctor(server.data, ['--repair'])
  expect([dropped.code, dropped.repaired]).toEqual([
    0,
    [expect.stringContaining('1 events that were never acknowledged')],
  ])
  await server.start()
  for (const [index, id] of ids.entries())
    expect((await server.api.export(id)).equals(exports[index] ?? Buffer.alloc(0))).toBe(true)
})

test('a wrong index is named without --deep, with the command that makes it again', async () => {
  const { server, ids } = await stoppedServer()
  await using _ = server
  await server.stop()
  const damages = {
    // One event less, one of another kind, a conversation that its id does not find.
    event_instant: "DELETE FROM event WHERE id = 'a3'",
    event_facet: "UPDATE event SET facet = facet + 2 WHERE id = 'b4'",
    event_id: "UPDATE event SET id = 'other' WHERE id = 'a5'",
    conversation_id: `UPDATE conversation SET id = 'other' WHERE id = '${ids[0]}'`,
  }
  for (const [index, sql] of Object.entries(damages)) {
    const copy = join(server.directory, index)
    cpSync(server.data, copy, { recursive: true })
    {
      // The index stays as it is: SQLite writes another in its place.
      using db = new DatabaseSync(join(copy, 'log.db'), { defensive: false })
      const [root, definition] = ['rootpage', 'sql'].map(
        (column) =>
          db.prepare(`SELECT ${column} AS value FROM sqlite_schema WHERE name = ?`).get(index)?.value,
      )
      db.exec(`PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = '${index}'`)
      db.exec('PRAGMA writable_schema = RESET')
      db.exec(sql)
      db.exec('PRAGMA writable_schema = ON')
      const table = index.startsWith('event') ? 'event' : 'conversation'
      db.prepare("INSERT INTO sqlite_schema VALUES ('index', ?, ?, ?, ?)").run(
        index,
        table,
        root ?? 0,
        definition ?? '',
      )
      db.exec('PRAGMA writable_schema = RESET')
    }
    const { code, findings } = await doctor(copy)
    const errors = findings.filter(({ area, level }) => area === 'log.db' && level === 'error')
    expect([index, code, errors.length > 0]).toEqual([index, 1, true])
    for (const { next } of errors) expect(next).toContain(`slipway doctor --repair --data ${copy}`)
  }
})

test('a changed schema is named, and not called repaired', async () => {
  const { server } = await stoppedServer()
  await using _ = server
  await server.stop()
  {
    using db = new DatabaseSync(join(server.data, 'log.db'), { defensive: false })
    db.exec(`PRAGMA writable_schema = ON;
      UPDATE sqlite_schema SET name = 'event_fadet', sql = replace(sql, 'event_facet', 'event_fadet')
      WHERE name = 'event_facet'`)
  }
  const problem = 'its index event_facet is missing'
  const found = await doctor(server.data)
  expect([found.code, found.findings]).toEqual([
    1,
    expect.arrayContaining([
      {
        area: 'log.db',
        level: 'error',
        message: problem,
        next: expect.stringMatching(/^Restore a backup: "slipway restore/),
      },
    ]),
  ])
  const { code, repaired } = await doctor(server.data, ['--repair'])
  expect([code, repaired.join()]).toEqual([1, expect.stringContaining(`cannot be repaired: ${problem}`)])
  await expect(server.start()).rejects.toThrow(`log.db is damaged: ${problem}. Restore it from a backup`)
})

test('what is no data directory, and a newer one, is said with the next step', async () => {
  const { server } = await stoppedServer()
  await using _ = server
  await server.stop()
  expect((await doctor(join(server.data, 'none'))).findings.at(-1)).toMatchObject({
    level: 'warning',
    area: 'data',
  })
  expect(await doctor(server.directory, [])).toMatchObject({ code: 0 })
  change(server.data, 'PRAGMA user_version = 4000')
  const { code, findings } = await doctor(server.data)
  expect(code).toBe(1)
  expect(findings.find(({ area }) => area === 'log.db')).toMatchObject({
    level: 'error',
    message: expect.stringContaining('newer version (schema 4000'),
  })
})
