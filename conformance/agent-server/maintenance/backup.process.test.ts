import { createHash, randomInt } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, test, vi } from 'vitest'
import { MessageLedger } from '../../contract/message-ledger.ts'
import { finishStep, scriptedModel } from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import type { AgentServerApi } from '../../support/agent-server-api.ts'
import { runCli, runJson, spawnCli } from '../../support/cli.ts'
import { withServer } from '../../support/with-server.ts'

/** The drill: back up under load, restore somewhere else, and compare. */
vi.setConfig({ testTimeout: 180_000 })

const base = mkdtempSync(join(tmpdir(), 'slipway-backup-'))
afterAll(() => rmSync(base, { recursive: true, force: true }))
let directories = 0
const newPath = () => join(base, `d${++directories}`)

async function addMessages(api: AgentServerApi, id: string, count: number, label = 'message'): Promise<void> {
  for (let n = 0; n < count; n++) {
    const { status } = await api.sendJson('POST', `/api/conversations/${id}/events`, {
      content: [{ type: 'text', text: `${label} ${n}` }],
    })
    expect(status).toBe(200)
  }
}

function listFiles(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
}

test('a backup under load is restored on another path with byte-identical exports', async () => {
  await using server = await OwnAgentServer.open()
  const { api } = server
  const removed = await api.import('')
  await addMessages(api, removed, 3)
  const secret = await api.sendJson('PUT', '/api/settings/secrets', { name: 'TOKEN', value: 'canary-5f3a9c' })
  expect(secret.status).toBe(200)
  const ledger = await MessageLedger.open(api)
  const over = new AbortController()
  const load = ledger.write(api, { label: 'load', signal: over.signal, bytes: 500 })
  const backup = newPath()
  const kinds: string[] = []
  for (let step = 1; step <= 3; step++) {
    const { acknowledged } = ledger
    await vi.waitFor(() => expect(ledger.acknowledged).toBeGreaterThan(acknowledged + 20), {
      timeout: 60_000,
    })
    const result = await runJson(['backup', backup, '--data', server.data])
    expect(result).toMatchObject({ step, skipped: [] })
    kinds.push(result.kind)
    if (step === 1) await api.fetch(`/api/conversations/${removed}`, { method: 'DELETE' })
  }
  expect(kinds).toEqual(['full', 'increment', 'increment'])
  over.abort()
  await load

  // A step of the past: what it has is the beginning of what is there now.
  const earlier = newPath()
  await runJson(['restore', backup, '--data', earlier, '--step', '1'])
  await withServer(earlier, async (old) => {
    expect(await old.count(removed)).toBe(3)
    for (const id of ledger.conversations) {
      const past = await old.export(id)
      expect(past.length).toBeGreaterThan(0)
      expect((await api.export(id)).subarray(0, past.length).equals(past)).toBe(true)
    }
  })

  writeFileSync(join(server.data, 'server.json'), '{"url":"http://127.0.0.1:1","pid":1}')
  writeFileSync(join(server.data, 'open-console.html'), 'a link')
  mkdirSync(join(server.data, 'editor'))
  writeFileSync(join(server.data, 'editor/state'), 'a secret of an extension')
  await runJson(['backup', backup, '--data', server.data])
  expect(await runJson(['backup', backup, '--verify'])).toMatchObject({ steps: 4 })
  const restored = newPath()
  const result = await runJson(['restore', backup, '--data', restored])
  expect(result).toMatchObject({ step: 4, conversations: ledger.conversations.length })
  expect(statSync(restored).mode & 0o777).toBe(0o700)
  const restoredNames = readdirSync(restored)
  for (const name of ['server.json', 'open-console.html', 'editor']) expect(restoredNames).not.toContain(name)
  const { stdout } = await runCli(['backup', backup, '--list'])
  const time = '\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d'
  expect(stdout).toMatch(
    new RegExp(`^STEP +TIME .*\\n1 +${time} +whole log +${ledger.conversations.length + 1} .*\\n2 `),
  )
  expect(stdout).toMatch(new RegExp(`^4 +${time} +new events +${ledger.conversations.length} .*B *$`, 'm'))
  expect(await runJson(['doctor', '--deep', '--data', restored])).toMatchObject({ healthy: true })
  await withServer(restored, async (other) => {
    await ledger.verify(other)
    for (const id of ledger.conversations)
      expect((await other.export(id)).equals(await api.export(id))).toBe(true)
    expect((await other.requestJson(`/api/conversations/${removed}`)).status).toBe(404)
    const names = await other.requestJson('/api/settings/secrets')
    expect(JSON.stringify(names.body)).toContain('TOKEN')
    // The restored log continues, also with new conversations.
    await addMessages(other, ledger.conversations[0] ?? '', 2, 'after')
    await addMessages(other, await other.import(''), 2)
  })
})

test('a killed backup leaves the steps before it whole, and the next one continues', async () => {
  await using server = await OwnAgentServer.open()
  const id = await server.api.import('')
  const backup = newPath()
  await addMessages(server.api, id, 5)
  await runJson(['backup', backup, '--data', server.data])
  for (let round = 0; round < 6; round++) {
    await addMessages(server.api, id, 3, `round ${round}`)
    const child = spawnCli(['backup', backup, '--data', server.data, ...(round % 2 ? ['--full'] : [])])
    const exit = new Promise((resolve) => child.once('exit', resolve))
    await sleep(randomInt(150, 700))
    child.kill('SIGKILL')
    await exit
    await runJson(['backup', backup, '--verify'])
  }
  await runJson(['backup', backup, '--data', server.data])
  const restored = newPath()
  await runJson(['restore', backup, '--data', restored])
  const bytes = await server.api.export(id)
  expect(await withServer(restored, async (api) => (await api.export(id)).equals(bytes))).toBe(true)
})

test('a changed or missing byte anywhere in a backup is noticed', async () => {
  await using server = await OwnAgentServer.open()
  const id = await server.api.import('')
  const backup = newPath()
  await addMessages(server.api, id, 5)
  await runJson(['backup', backup, '--data', server.data])
  await addMessages(server.api, id, 5)
  await runJson(['backup', backup, '--data', server.data])
  for (const file of listFiles(backup).filter((file) => !file.includes('lock.db'))) {
    const copy = newPath()
    cpSync(backup, copy, { recursive: true })
    const path = file.replace(backup, copy)
    const bytes = readFileSync(path)
    const at = randomInt(Math.max(1, bytes.length))
    bytes[at] = (bytes[at] ?? 0) ^ 16
    writeFileSync(path, bytes)
    const verified = await runCli(['backup', copy, '--verify'])
    expect([file, verified.code, verified.stderr]).toEqual([file, 1, expect.stringMatching(/damaged/)])
    if (!/log-|backup\.json/.test(file)) continue
    const target = newPath()
    const restored = await runCli(['restore', copy, '--data', target])
    expect([file, restored.code, existsSync(target)]).toEqual([file, 1, false])
  }
})

test('a restored file has no mode by which it runs as its owner, whoever wrote the backup', async () => {
  await using server = await OwnAgentServer.open()
  writeFileSync(join(server.data, 'program'), '')
  const backup = newPath()
  await runJson(['backup', backup, '--data', server.data])
  const path = join(backup, 'backup.json')
  const { manifest } = JSON.parse(readFileSync(path, 'utf8'))
  for (const { entries } of manifest.steps) for (const entry of entries) entry.mode |= 0o7000
  const text = JSON.stringify(manifest)
  const sha256 = createHash('sha256').update(text).digest('hex')
  writeFileSync(path, `{"manifest":${text},"sha256":"${sha256}"}\n`)
  const target = newPath()
  await runJson(['restore', backup, '--data', target])
  expect(existsSync(join(target, 'program'))).toBe(true)
  for (const file of readdirSync(target, { recursive: true }).map((name) => join(target, String(name))))
    expect([file, statSync(file).mode & 0o7000]).toEqual([file, 0])
})

test('a backup without secrets has no key and no sealed value', async () => {
  await using server = await OwnAgentServer.open()
  const { data, api } = server
  await api.sendJson('PUT', '/api/settings/secrets', { name: 'TOKEN', value: 'canary-77c1e0' })
  const llm = scriptedModel([finishStep()])
  await server.driver.create({ llm }, { secrets: { OTHER: 'canary-77c1e1' } })
  using log = new DatabaseSync(join(data, 'log.db'), { readOnly: true })
  const vault = log.prepare('SELECT sealed FROM vault WHERE sealed IS NOT NULL').all() as {
    sealed: Uint8Array
  }[]
  expect(vault).toHaveLength(1)
  const keys = ['secret.key', 'session.key'].flatMap((name) =>
    existsSync(join(data, name)) ? [readFileSync(join(data, name), 'utf8').trim()] : [],
  )
  const documents = log.prepare("SELECT sealed FROM document WHERE name LIKE '%.sealed'").all()
  const sealed = documents.map(({ sealed }) => Buffer.from(sealed as Uint8Array))
  // What an import of an earlier version has left.
  writeFileSync(join(data, 'settings.sealed.imported'), 'canary-77c1e2')
  expect(sealed).not.toEqual([])
  const withSecrets = newPath()
  await runJson(['backup', withSecrets, '--data', data])
  const backup = newPath()
  await runJson(['backup', backup, '--data', data, '--without-secrets'])
  const has = (directory: string, bytes: Buffer) =>
    listFiles(directory).some((file) => readFileSync(file).includes(bytes))
  for (const bytes of [
    ...keys.map((key) => Buffer.from(key)),
    ...vault.map(({ sealed }) => Buffer.from(sealed)),
    ...sealed,
    Buffer.from('canary-77c1e2'),
  ]) {
    expect(has(withSecrets, bytes)).toBe(true)
    expect(has(backup, bytes)).toBe(false)
  }
  for (const file of listFiles(withSecrets)) expect(statSync(file).mode & 0o077).toBe(0)
  const mixed = await runCli(['backup', backup, '--data', data])
  expect(mixed).toMatchObject({ code: 1, stderr: expect.stringContaining('without secrets') })
  const restored = newPath()
  await runJson(['restore', backup, '--data', restored])
  await withServer(restored, async (other) => expect((await other.requestJson('/ready')).status).toBe(200))
})

test('what would overwrite something is refused with the next step', async () => {
  await using server = await OwnAgentServer.open()
  const id = await server.api.import('')
  await addMessages(server.api, id, 4)
  const backup = newPath()
  await runJson(['backup', backup, '--data', server.data])
  const refused = async (args: readonly string[], message: RegExp) =>
    expect(await runCli(args)).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(message) })
  await refused(['restore', backup, '--data', server.data], /is not empty: it has .*another one with --data/)
  await refused(['restore', backup, '--data', newPath(), '--step', '7'], /has no step 7: it has 1 to 1/)
  await refused(['restore', base, '--data', newPath()], /is no backup/)
  await refused(['backup', base, '--data', server.data], /neither empty nor a backup/)
  await refused(['backup', join(server.data, 'b'), '--data', server.data], /inside of the data directory/)
  await refused(['backup', newPath(), '--data', newPath()], /is no data directory.*--data/)

  // Another history: an earlier copy of the directory that continued differently, and another server.
  const restored = newPath()
  await runJson(['restore', backup, '--data', restored])
  await refused(['backup', backup, '--data', restored], /one of another log/)
  await server.stop()
  const copy = newPath()
  cpSync(server.data, copy, { recursive: true })
  await withServer(copy, (api) => addMessages(api, id, 2, 'one'))
  await runJson(['backup', backup, '--data', copy])
  await withServer(server.data, (api) => addMessages(api, id, 2, 'two'))
  await refused(['backup', backup, '--data', server.data], /does not continue the log of the backup/)
})
