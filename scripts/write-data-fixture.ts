import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'

/**
 * `npx node scripts/write-data-fixture.ts TREE [LABEL]`: writes databases with the storage of a source tree
 * (this one, or a git worktree of an older commit with its packages installed) into the fixtures of the storage
 * tests, named by their schema versions, and by a label (the day of the commit) where a version has several.
 * Run it on the present tree before you add a migration.
 */
const [tree = '.', label] = process.argv.slice(2)
const output = resolve(import.meta.dirname, '../packages/storage/src/sqlite/testing/versions')
const directory = mkdtempSync(join(tmpdir(), 'slipway-fixture-'))
const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const importedId = '1f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
let now = 1_767_225_600_000_000

const storage = await import(pathToFileURL(resolve(tree, 'packages/storage/src/index.ts')).href)
{
  await using store = await storage.openStorage({ directory, now: () => now++ })
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
  const removed = '2f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
  await store.conversations.create({ id: removed, title: null, tags: {}, request: null })
  await store.conversations.remove(removed)
}
const openControlPlane = storage.openControlPlaneStore ?? storage.openLedger
if (openControlPlane !== undefined) {
  await (await openControlPlane({ directory }))[Symbol.asyncDispose]()
  using db = new DatabaseSync(join(directory, 'control.db'))
  db.exec(`INSERT INTO user (id, name, is_admin, created_at) VALUES ('u1', 'Ada', 1, 1);
    INSERT INTO document (user, name, sealed) VALUES ('u1', 'settings', x'01')`)
}
mkdirSync(output, { recursive: true })
for (const name of ['log', 'control']) {
  const path = join(directory, `${name}.db`)
  const copy = join(directory, `${name}-copy.db`)
  if (name === 'control' && openControlPlane === undefined) continue
  using db = new DatabaseSync(path)
  db.prepare('VACUUM INTO ?').run(copy)
  const version = db.prepare('PRAGMA user_version').get()?.user_version
  const target = join(output, `${name}-v${version}${label === undefined ? '' : `-${label}`}.db.gz`)
  writeFileSync(target, gzipSync(readFileSync(copy), { level: 9 }))
  console.log(target)
}
rmSync(directory, { recursive: true })
