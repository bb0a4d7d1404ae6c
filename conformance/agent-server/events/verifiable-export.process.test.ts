import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { type AgentServerApi, messageLine, toJsonLines } from '../../support/agent-server-api.ts'
import { runCli } from '../../support/cli.ts'
import { withServer } from '../../support/with-server.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const program = resolve(import.meta.dirname, '../../../examples/verify_export.py')
const python = promisify(execFile)
const log = toJsonLines(
  messageLine('a', '2026-01-01T00:00:00Z', 'one'),
  ' {"kind" : "PauseEvent" ,"id":"odd","timestamp":"2026-01-01T00:00:01.1234567+01:00"}\r',
  messageLine('b', '2026-01-01T00:00:02Z', 'two é'),
)
const unknownKey = Buffer.alloc(32, 9).toString('base64')

let server: OwnAgentServer
let file: string
let key: string

async function readKey(api: AgentServerApi): Promise<unknown> {
  const { body } = await api.requestJson<{ export_public_key: unknown }>('/server_info')
  return body.export_public_key
}

beforeAll(async () => {
  server = await OwnAgentServer.open()
  expect(await readKey(server.api)).toBeNull()
  const id = await server.api.import(log)
  file = join(server.directory, 'log.verifiable.jsonl')
  const done = await runCli(['--url', server.url, 'export', id, '--verifiable', '--output', file])
  expect(done).toMatchObject({ code: 0, stderr: '' })
  key = String(await readKey(server.api))
})

afterAll(async () => await server[Symbol.asyncDispose]())

/** The exit codes of the command and of the program in Python. */
async function check(path: string, publicKey?: string) {
  const own = await runCli(['verify', path, ...(publicKey === undefined ? [] : ['--key', publicKey])])
  const args = [program, path, ...(publicKey === undefined ? [] : [publicKey])]
  const other = await python('python3', args).then(
    ({ stdout }) => ({ code: 0, text: stdout }),
    ({ code, stdout, stderr }) => ({ code, text: `${stdout}${stderr}` }),
  )
  return { own: own.code, python: other.code, text: `${own.stdout}${own.stderr}`, pythonText: other.text }
}

test('the export holds the stored bytes, and is verified offline by the command and in Python', async () => {
  const lines = (await readFile(file, 'utf8')).split('\n')
  const events = log.trimEnd().split('\n')
  expect(lines.slice(1, -2)).toEqual(events.map((event, at) => `{"position":${at + 1},"event":${event}}`))
  expect(await check(file, key)).toMatchObject({
    ...{ own: 0, python: 0 },
    text: expect.stringContaining('Verified: 3 events'),
    pythonText: 'Verified: 3 events\n',
  })
  expect(await check(file)).toMatchObject({
    ...{ own: 4, python: 4 },
    text: expect.stringContaining('Unchanged, signer unknown'),
    pythonText: 'Unchanged, signer unknown: 3 events\n',
  })
  expect(await check(file, unknownKey)).toMatchObject({ own: 1, python: 1 })
  expect((await runCli(['verify', file, '--key', 'no-key'])).code).toBe(1)
})

/** Lines with their LF. */
const changes: Readonly<Record<string, (lines: string[]) => string[]>> = {
  'a changed byte': ([head = '', one = '', ...rest]) => [head, one.replace('one', 'onE'), ...rest],
  'a missing line': (lines) => lines.toSpliced(2, 1),
  'two swapped lines': ([head = '', a = '', b = '', ...rest]) => [head, b, a, ...rest],
  'a cut end': (lines) => lines.slice(0, -1),
  'half of a last line': (lines) => [...lines.slice(0, -1), String(lines.at(-1)).slice(0, 40)],
  'a changed key': ([head = '', ...rest]) => [head.replace(key, unknownKey), ...rest],
}

test('every change is refused, with the key and without one', async () => {
  const lines = (await readFile(file, 'utf8')).split(/(?<=\n)/)
  const changed = join(server.directory, 'changed.jsonl')
  for (const [at, [name, change]] of Object.entries(changes).entries()) {
    await writeFile(changed, change(lines).join(''))
    const given = at % 2 === 0 ? key : undefined
    expect(await check(changed, given), name).toMatchObject({ own: 1, python: 1 })
  }
})

test('an empty conversation and a gzip file are verified, and other formats are refused', async () => {
  const id = await server.api.import('')
  const path = `/api/conversations/${id}/export?format=verifiable&gzip=true`
  const bytes = Buffer.from(await (await server.api.fetch(path)).arrayBuffer())
  const zipped = join(server.directory, 'empty.jsonl.gz')
  await writeFile(zipped, bytes)
  expect(gunzipSync(bytes).toString()).toContain('"count":0')
  expect((await runCli(['verify', zipped, '--key', key])).code).toBe(0)
  const refused = await server.api.requestJson(`/api/conversations/${id}/export?format=word`)
  expect(refused).toMatchObject({ status: 422, body: { detail: [{ loc: ['query', 'format'] }] } })
})

test('the key survives a backup that is restored', async () => {
  await server.stop()
  const backup = join(server.directory, 'backup')
  expect(await runCli(['backup', backup, '--data', server.data])).toMatchObject({ code: 0 })
  const restored = join(server.directory, 'restored')
  expect(await runCli(['restore', backup, '--data', restored])).toMatchObject({ code: 0 })
  expect(await withServer(restored, readKey)).toBe(key)
})
