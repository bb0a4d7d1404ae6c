import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'

/**
 * `npx node scripts/write-data-fixture.ts TREE [LABEL]`: writes databases with the storage of a source tree
 * (this one, or a git worktree of an older commit with its packages installed) into the fixtures of the storage
 * tests, named by their schema versions, and by a label (the day of the commit) where a version has several.
 * Run it on the present tree before you add a migration. By `.ci/postgres`, the one on PostgreSQL instead.
 */
const [tree = '.', label] = process.argv.slice(2)
const databaseUrl = process.env.SLIPWAY_TEST_DATABASE_URL
const engines = resolve(import.meta.dirname, '../packages/storage/src')
const directory = mkdtempSync(join(tmpdir(), 'slipway-fixture-'))
const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const importedId = '1f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
let now = 1_767_225_600_000_000

if (databaseUrl === undefined) await writeFiles()
else await writeDump(databaseUrl)
rmSync(directory, { recursive: true })

async function load(module: string) {
  return await import(pathToFileURL(resolve(tree, 'packages/storage/src', module)).href)
}

// biome-ignore lint/suspicious/noExplicitAny: the storage of any version.
async function fill(store: any): Promise<void> {
  await store.conversations.create({
    id,
    title: 'Σ',
    tags: { team: 'blue' },
    request: '{}',
    status: 'paused',
  })
  for (let n = 0; n < 40; n++) {
    const text = `Text ${n} of the first conversation. `.repeat(n + 1)
    const message = { role: 'user', content: [{ type: 'text', text }] }
    await store.log.append(id, [{ id: `m${n}`, kind: 'MessageEvent', source: 'user', llm_message: message }])
    if (n % 4 === 0) await store.log.append(id, [{ id: `p${n}`, kind: 'PauseEvent', source: 'user' }])
  }
  const session = await store.startImport(importedId)
  const lines = Array.from({ length: 60 }, (_, n) => {
    const event = {
      id: `i${n}`,
      timestamp: '2026-01-01T00:00:00.000000',
      source: 'agent',
      kind: 'PauseEvent',
    }
    return {
      bytes: Buffer.from(`${JSON.stringify(event)} `),
      id: event.id,
      instant: now + n,
      kind: event.kind,
      source: event.source,
    }
  })
  await session.add(lines)
  await session.publish({ title: 'imported' })
  await store.documents?.update('', 'one.json', () => Buffer.from('{"one":1}'))
  const removed = '2f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
  await store.conversations.create({ id: removed, title: null, tags: {}, request: null })
  await store.conversations.remove(removed)
}

async function writeFiles(): Promise<void> {
  const output = join(engines, 'sqlite/testing/versions')
  const storage = await load('index.ts')
  // Earlier versions had it in the first module.
  const controlPlane = await load('control-plane.ts').catch(() => storage)
  const openControlPlane = controlPlane.openControlPlaneStore ?? storage.openLedger
  {
    await using store = await storage.openStorage({ directory, now: () => now++ })
    await fill(store)
  }
  if (openControlPlane !== undefined) {
    await (await openControlPlane({ directory }))[Symbol.asyncDispose]()
    using db = new DatabaseSync(join(directory, 'control.db'))
    db.exec(`INSERT INTO user (id, name, is_admin, created_at) VALUES ('u1', 'Ada', 1, 1);
      INSERT INTO document (user, name, sealed) VALUES ('u1', 'settings', x'01')`)
  }
  if (storage.openBashEvents !== undefined) {
    using events = storage.openBashEvents(join(directory, 'bash.db'))
    const command = { commandId: 'c', conversationId: null, isLast: false, body: Buffer.from('{"n":0} ') }
    events.add([
      { ...command, id: 'c', instant: 1, order: -1 },
      { ...command, id: 'o', instant: 2, order: 0, isLast: true, body: Buffer.from('{"n":1} ') },
    ])
  }
  mkdirSync(output, { recursive: true })
  for (const name of ['log', 'control', 'bash']) {
    const path = join(directory, `${name}.db`)
    const copy = join(directory, `${name}-copy.db`)
    if (!existsSync(path)) continue
    using db = new DatabaseSync(path)
    db.prepare('VACUUM INTO ?').run(copy)
    const version = db.prepare('PRAGMA user_version').get()?.user_version
    const target = join(output, `${name}-v${version}${label === undefined ? '' : `-${label}`}.db.gz`)
    writeFileSync(target, gzipSync(readFileSync(copy), { level: 9 }))
    console.log(target)
  }
}

/** A dump of the tables in a schema `fixture`, one statement a row. */
async function writeDump(url: string): Promise<void> {
  const output = join(engines, 'postgres/testing/versions')
  const { Client } = (await import('pg')).default
  const client = new Client({ connectionString: url })
  await client.connect()
  await client.query('CREATE EXTENSION IF NOT EXISTS pg_trgm; CREATE SCHEMA fixture')
  const own = new URL(url)
  own.searchParams.set('options', '-c search_path=fixture')
  const { openPostgresStorage } = await load('postgres/storage.ts')
  {
    await using store = await openPostgresStorage({ url: own.href, now: () => now++ })
    await fill(store)
    await store.waitUntilIndexed()
  }
  const { rows } = await client.query('SELECT version FROM fixture.slipway_schema')
  const { version } = rows[0]
  if (version > 1)
    await client.query(`INSERT INTO fixture.app_user (id, name, is_admin, created_at) VALUES ('u1', 'Ada', true, 1);
      INSERT INTO fixture.document ("user", name, sealed) VALUES ('u1', 'settings', '\\x01')`)
  const dump = execFileSync(process.env.PG_DUMP ?? 'pg_dump', [
    '--schema=fixture',
    '--inserts',
    '--no-owner',
    url,
  ])
  await client.query('DROP SCHEMA fixture CASCADE')
  await client.end()
  // Later versions of pg_dump begin and end with commands of psql.
  const text = dump.toString().replace(/^(?:--.*|\\.*|\s*)\n/gm, '')
  mkdirSync(output, { recursive: true })
  const target = join(output, `tables-v${version}.sql.gz`)
  writeFileSync(target, gzipSync(text, { level: 9 }))
  console.log(target)
}
