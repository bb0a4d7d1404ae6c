import { type ChildProcess, spawn } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { gunzipSync, gzipSync } from 'node:zlib'
import { Client } from '@slipway/client'
import { must } from '@slipway/protocol/client'
import { commandMain } from '@slipway/shared/process/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import ownPackage from '../package.json' with { type: 'json' }
import { runForBytes, spawnCommand } from './testing/command-process.ts'

// Commands are programs, and the machine may have others to run.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const samplePath = fileURLToPath(new URL('../../../examples/sample-log/sample.jsonl', import.meta.url))
const sample = await readFile(samplePath)
const sampleLines = sample.toString('utf8').trimEnd().split('\n')

let directory: string
let url: string
let server: ChildProcess

const spawnCli = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  spawnCommand(args, { cwd: directory, env: { SLIPWAY_URL: url, ...env } })

/** Runs the command to its end. */
async function runCli(
  args: readonly string[],
  input: string | Buffer = '',
  env: Readonly<Record<string, string>> = {},
) {
  const options = { cwd: directory, env: { SLIPWAY_URL: url, ...env }, input }
  const { stdout, stderr, code } = await runForBytes(args, options)
  return { stdout: stdout.toString(), bytes: stdout, stderr: stderr.toString(), code }
}

function exitCode(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.once('close', resolve))
}

/** The first lines that a running command prints. */
async function firstLines(child: ChildProcess, count: number): Promise<string[]> {
  let printed = ''
  for await (const chunk of must(child.stdout, 'stdout').iterator({ destroyOnReturn: false })) {
    printed += chunk
    if (printed.split('\n').length > count) break
  }
  return printed.split('\n').slice(0, count)
}

/** Imports the sample again, with `flags`, and answers the conversation's id. */
async function importSample(...flags: string[]): Promise<string> {
  const { stdout, stderr } = await runCli(['import', samplePath, '--json', ...flags])
  expect(stderr).toBe('')
  expect(JSON.parse(stdout)).toEqual({ conversation_id: expect.any(String), imported: sampleLines.length })
  return JSON.parse(stdout).conversation_id
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-cli-test-'))
  const serve = ['serve', '--port', '0', '--data', 'data', '--json', '--no-key']
  server = spawnCli(serve, { SLIPWAY_LOG_LEVEL: 'error', SLIPWAY_CONSOLE: 'false' })
  const [line] = await firstLines(server, 1)
  url = JSON.parse(line ?? '').url
})

afterAll(async () => {
  server.kill('SIGKILL')
  await rm(directory, { recursive: true, force: true })
})

test('a log that is imported comes out as the same bytes, plain, as a gzip file and with its header', async () => {
  const id = await importSample('--title', 'Σίγμα', '--tag', 'team=blue', '--tag', 'a=b=c')
  const plain = await runCli(['export', id])
  expect(plain.bytes.equals(sample)).toBe(true)
  expect(plain).toMatchObject({ stderr: '', code: 0 })

  const output = join(directory, 'log.jsonl.gz')
  const zipped = await runCli(['export', id, '--output', output, '--gzip', '--meta', '--json'])
  expect(JSON.parse(zipped.stdout)).toEqual({ output, size_bytes: (await readFile(output)).length })
  const lines = gunzipSync(await readFile(output)).toString('utf8')
  const [header, ...rest] = lines.split('\n')
  expect(JSON.parse(header ?? '')).toEqual({
    conversation_id: id,
    title: 'Σίγμα',
    tags: { team: 'blue', a: 'b=c' },
  })
  expect(rest.join('\n')).toBe(sample.toString('utf8'))

  // The flag goes before the header in the file; what it does not name stays.
  const copy = '0F5C2B1E9A774C0A9D3B0A8F6A1F0C11'
  const again = await runCli(['import', '-', '--id', copy], await readFile(output))
  expect(again).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('60 events into conversation 0f5c2b1e-9a77'),
  })
  const info = await new Client({ url }).call('getConversation', { params: { conversation_id: copy } })
  expect(info).toMatchObject({
    title: 'Σίγμα',
    tags: { team: 'blue', a: 'b=c' },
    execution_status: 'finished',
  })
  expect((await readdir(directory)).filter((name) => name.includes('.part'))).toEqual([])
})

test('a bad line is told with file, line and place, and nothing is imported', async () => {
  const file = join(directory, 'bad.jsonl')
  await writeFile(file, `${sampleLines[0]}\n\n{"kind":"PauseEvent","extra":1}\n`)
  const id = 'a9a1c0de-0000-4000-8000-000000000001'
  const bad = await runCli(['import', file, '--id', id, '--json'])
  expect(bad).toMatchObject({ stdout: '', code: 1 })
  expect(bad.stderr).toMatch(new RegExp(`^${file}:3: extra: .+\\nslipway: Nothing was imported`))
  const gone = await runCli(['search', id])
  expect(gone).toMatchObject({
    stdout: '',
    code: 1,
    stderr: expect.stringContaining('"slipway ls" lists'),
  })
  const imported = await runCli(['import', file, '--id', id, '--keep-unknown'])
  expect(imported).toMatchObject({ code: 0, stderr: '' })
})

test.concurrent.each([
  ['a file that is missing', ['import', 'nowhere.jsonl'], '', 'slipway: Cannot read nowhere.jsonl: '],
  ['a directory', ['import', '.'], '', 'slipway: Cannot read .: it has no events/event-NUMBER-ID.json'],
  ['a damaged gzip file', ['import', '-'], gzipSync(sample).subarray(0, 900), 'slipway: Cannot read -: '],
  [
    'an id to import under that is none',
    ['import', samplePath, '--id', 'x'],
    '',
    'in the flags: conversation_id: ',
  ],
  [
    'an id that is none',
    ['export', 'nonsense'],
    '',
    'slipway: No conversation has this id or title: nonsense.',
  ],
  [
    'an address that is none',
    ['conversations', '--url', 'here'],
    '',
    'slipway: The address is not one of http',
  ],
])('%s fails with a clear text', async (_, args, input, words) => {
  const failed = await runCli(args, input)
  expect(failed).toMatchObject({ stdout: '', code: 1, stderr: expect.stringContaining(words) })
  expect(failed.stderr).not.toContain('    at ')
})

test('an import tells what was new, and what is no JSON is not an event of another version', async () => {
  const id = '5b1f0a52-3f0e-4d53-9a3c-90c7ad2d2f10'
  const first = await runCli(['import', samplePath, '--id', id])
  expect(first.stdout).toBe(`Imported 60 events into conversation ${id}\n`)
  const again = await runCli(['import', samplePath, '--id', id])
  expect(again.stdout).toBe(`Imported 0 events into conversation ${id}; 60 were there already\n`)
  const bad = await runCli(['import', '-'], 'hello\n')
  expect(bad).toMatchObject({ code: 1, stderr: expect.stringContaining('should be one event as JSON') })
  expect(bad.stderr).not.toContain('--keep-unknown')
})

test('a server that cannot work refuses to start with what, where and next', async () => {
  const file = join(directory, 'a-file')
  await writeFile(file, 'x')
  const foreign = await mkdtemp(join(directory, 'foreign-'))
  await writeFile(join(foreign, 'log.db'), 'not a database '.repeat(20))
  const folder = await mkdtemp(join(directory, 'folder-'))
  await mkdir(join(folder, 'log.db'))
  const serve = (data: string, env = {}) =>
    runCli(['serve', '--port', '0', '--no-console', '--data', data], '', env)
  const cases = [
    [serve(file), `the data directory ${file} cannot be used: it is a file. Name another one with --data.`],
    [serve(join(file, 'x')), 'a part of its path is a file. Name another one'],
    [serve(foreign), `"slipway doctor --data ${foreign}" examines it`],
    [serve(folder), `${join(folder, 'log.db')} cannot be opened: it is a directory.`],
    [serve('d1', { SLIPWAY_LOGLEVEL: 'debug' }), 'SLIPWAY_LOGLEVEL is no setting. Is it SLIPWAY_LOG_LEVEL?'],
    [
      serve('d2', { SLIPWAY_MAX_CONCURRENT_RUNS: 'many' }),
      'SLIPWAY_MAX_CONCURRENT_RUNS: Should be a whole number from 1 to 100000',
    ],
    [
      runCli(['sandbox-server', '--port', '0', '--no-console', '--data', 'd3'], '', {
        SLIPWAY_BACKEND: 'docker',
        SLIPWAY_DOCKER_SOCKET: join(directory, 'no.sock'),
      }),
      'Docker sandboxes cannot be started. The container engine at',
    ],
  ] as const
  for (const [run, words] of cases) {
    const result = await run
    expect(result).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(words) })
    expect(result.stderr).not.toContain('    at ')
  }
})

test.concurrent.each([
  [['nonsense']],
  [['search']],
  [['import', 'x', '--tag', 'novalue']],
  [['tail', 'x', '--after', '-1']],
  [['search', 'x', '--limit', '101']],
  [['search', 'x', '--since', 'noon']],
])('%j is wrong usage', async (args) => {
  expect(await runCli(args)).toMatchObject({
    stdout: '',
    code: 2,
    stderr: expect.stringContaining('--help'),
  })
})

test('no server, a missing and a wrong key say what to do', async () => {
  const strict = createServer((_, response) => void response.writeHead(401).end('{"detail":"Unauthorized"}'))
  await new Promise<void>((resolve) => strict.listen(0, '127.0.0.1', resolve))
  const address = `http://127.0.0.1:${(strict.address() as AddressInfo).port}`
  const refused = await runCli(['conversations', '--url', address])
  expect(refused).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('No key was sent. Set SLIPWAY_SESSION'),
  })
  const wrong = await runCli(['conversations', '--url', address], '', {
    SLIPWAY_SESSION_API_KEY: 'canary-of-key',
  })
  expect(wrong.stderr).toContain('does not accept the key of SLIPWAY_SESSION_API_KEY')
  expect(wrong.stderr).not.toContain('canary')
  const data = await mkdtemp(join(directory, 'key-'))
  await writeFile(join(data, 'session.key'), 'canary-of-a-file-0123\n', { mode: 0o600 })
  const stale = await runCli(['conversations', '--url', address, '--data', data])
  expect(stale.stderr).toContain(`does not accept the key of ${join(data, 'session.key')}`)
  await new Promise((resolve) => strict.close(resolve))
  const absent = await runCli(['conversations', '--url', address])
  expect(absent).toMatchObject({ code: 1, stderr: expect.stringContaining('slipway serve') })
})

test('a search prints events as they are served, page by page or all', async () => {
  const id = await importSample()
  const window = ['--since', '2026-03-14T09:28:00Z', '--until', '2026-03-14T09:29:00Z']
  const [all, newest, counted, found] = await Promise.all([
    runCli(['search', id, '--json', '--all', '--limit', '25']),
    runCli(['search', id, '--json', '--desc', '--limit', '2']),
    runCli(['search', id, '--kind', 'ActionEvent', '--source', 'agent', ...window, '--count']),
    runCli(['search', id, '--body', 'σοφοκλεουσ']),
  ])
  expect(all).toMatchObject({ stdout: sample.toString('utf8'), stderr: '', code: 0 })
  expect(newest.stdout).toBe(`${sampleLines.at(-1)}\n${sampleLines.at(-2)}\n`)
  expect(counted.stdout).toBe('7\n')
  expect(found.stdout).toMatch(
    /^TIME +KIND +SOURCE +SUMMARY\n2026-03-14 09:26:59.489 +MessageEvent +user +Searching .+\n$/,
  )
  const next = /--page-id (\S+),/.exec(newest.stderr)?.[1] ?? ''
  const older = await runCli(['search', id, '--json', '--desc', '--limit', '1', '--page-id', next])
  expect(older.stdout).toBe(`${sampleLines.at(-3)}\n`)
})

test('a kind and a source that no event has are named with the nearest ones', async () => {
  const id = await importSample()
  const found = await runCli(['search', id, '--kind', 'ActionEvnt', '--source', 'agents'])
  expect(found.stderr).toBe(
    'No event matches. There is no kind ActionEvnt. Is it ActionEvent? There is no source agents. Is it agent?\n',
  )
  const counted = await runCli(['search', id, '--kind', 'actionevent', '--count'])
  expect(counted).toMatchObject({
    stdout: '0\n',
    stderr: 'There is no kind actionevent. Is it ActionEvent?\n',
  })
  expect((await runCli(['search', id, '--kind', 'PauseEvent', '--since', '2099-01-01'])).stderr).toBe(
    'No event matches.\n',
  )
})

test('what people are shown holds no control characters and nothing that is encrypted', async () => {
  const evil = {
    kind: 'AgentErrorEvent',
    tool_name: 't',
    tool_call_id: 'c',
    error: '\u001b]0;owned\u0007 \u202e',
  }
  const input = `${JSON.stringify(evil)}\n${sample}`
  const done = await runCli(['import', '-', '--title', '\u001b[2Jtitle', '--json'], input)
  const id = JSON.parse(done.stdout).conversation_id
  const [events, list, tail] = await Promise.all([
    runCli(['search', id]),
    runCli(['conversations', '--all']),
    runCli(['tail', id, '--until-idle']),
  ])
  for (const { stdout } of [events, list, tail])
    expect(stdout.replaceAll('\n', '')).not.toMatch(/\p{Cc}|\u202e/u)
  expect(events.stdout).toContain('t: ␛]0;owned␇ \\u202e')
  expect(list.stdout).toContain('␛[2Jtitle')
  for (const { stdout } of [events, tail]) expect(stdout).not.toMatch(/Z2VoZWlt|c2lnbmF0dXJl/)
})

test('tail prints every event with its position and ends when nothing runs', async () => {
  const id = await importSample()
  const { stdout, code } = await runCli(['tail', id, '--json', '--until-idle', '--after', '10'])
  expect(code).toBe(0)
  expect(stdout.replace(/,"cursor":"\d+\.[0-9a-f]{8}"}$/gm, '}')).toBe(
    sampleLines
      .slice(10)
      .map((line, n) => `{"position":${n + 11},"event":${line}}\n`)
      .join(''),
  )
})

test('tail shows a message as it comes and ends quietly at Ctrl-C', async () => {
  const id = await importSample()
  const child = spawnCli(['tail', id, '--after', '59'])
  const end = exitCode(child)
  expect(await firstLines(child, 1)).toEqual([expect.stringMatching(/^60 +2026-03-14 .+status: finished$/)])
  const body = { content: [{ type: 'text' as const, text: 'Γεια σου ☕' }] }
  await new Client({ url }).call('sendMessage', { params: { conversation_id: id }, body })
  const lines = await firstLines(child, 2)
  expect(lines[1]).toMatch(/^62 .+MessageEvent +user +Γεια σου ☕$/)
  child.kill('SIGINT')
  expect(await end).toBe(0)
})

test('conversations are listed as a table and as JSON', async () => {
  const id = await importSample('--title', 'A street book')
  const table = await runCli(['conversations', '--status', 'finished', '--limit', '1'])
  expect(table.stdout).toMatch(/^ID +STATUS +CHANGED +TITLE\n/)
  expect(table.stdout).toMatch(new RegExp(`^${id.slice(0, 8)} +finished +.+ A street book$`, 'm'))
  expect(table.stderr).toContain('--all')
  const json = await runCli(['conversations', '--json', '--all', '--limit', '2'])
  const ids = json.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).id)
  expect(ids[0]).toBe(id)
  expect(new Set(ids).size).toBe(await new Client({ url }).call('countConversations', {}))
})

test('the server prints where it and its key are, and nothing else as JSON, and stops at Ctrl-C', async () => {
  const child = spawnCli([
    'serve',
    '--json',
    '--no-console',
    '--port',
    '0',
    '--data',
    join(directory, 'other'),
  ])
  const end = exitCode(child)
  const printed = text(must(child.stdout, 'stdout').on('data', stopOnce))
  function stopOnce() {
    child.kill('SIGINT')
  }
  expect(await end).toBe(0)
  expect(JSON.parse(await printed)).toEqual({
    url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
    session_key_file: join(directory, 'other/session.key'),
  })
})

test('a web client is shown where the server is, and a folder without one is told in words', async () => {
  const web = await mkdtemp(join(directory, 'web-'))
  const missing = await runCli(['serve', '--port', '0', '--data', join(directory, 'web-data'), '--web', web])
  expect(missing.code).toBe(1)
  expect(missing.stderr).toContain(`There is no web page in ${web}`)
  expect(missing.stderr).not.toContain('    at ')
  await writeFile(join(web, 'index.html'), '<head><title>A client</title>')
  const child = spawnCli(['serve', '--port', '0', '--data', join(directory, 'web-data'), '--web', web])
  const end = exitCode(child)
  const lines = await firstLines(child, 2)
  const address = /http:\S+/.exec(lines[1] ?? '')?.[0] ?? ''
  expect(lines[1]).toMatch(/web/)
  const page = await fetch(address, { headers: { accept: 'text/html' } })
  expect(await page.text()).toContain('A client')
  child.kill('SIGINT')
  expect(await end).toBe(0)
})

test('a port in use is reported', async () => {
  const result = await runCli(['serve', '--port', new URL(url).port, '--data', join(directory, 'other')])
  expect(result.code).toBe(1)
  expect(result.stderr).toContain(new URL(url).port)
  expect(result.stderr).not.toContain('    at ')
})

test('the data directory of a server is ignored by git', async () => {
  expect(await readFile(join(directory, 'data/.gitignore'), 'utf8')).toBe('*\n')
})

test('an older Node starts the one that is installed, or says in one line what to install', async () => {
  const { version } = ownPackage
  const pretend = 'Object.defineProperty(process.versions, "node", { value: "20.1.0" })'
  const flags = ['--import', `data:text/javascript,${encodeURIComponent(pretend)}`]
  const run = async (main: string, command = 'version') => {
    const child = spawn(process.execPath, [...flags, main, command])
    const [out, error, code] = await Promise.all([text(child.stdout), text(child.stderr), exitCode(child)])
    return { out, error, code }
  }
  expect(await run(commandMain)).toEqual({ out: `${version}\n`, error: '', code: 0 })
  const alone = join(await mkdtemp(join(directory, 'alone-')), 'src')
  await mkdir(join(alone, 'components'), { recursive: true })
  await writeFile(join(alone, '../package.json'), JSON.stringify({ type: 'module', version }))
  for (const file of ['main.js', 'components/components.js'])
    await copyFile(join(import.meta.dirname, file), join(alone, file))
  expect(await run(join(alone, 'main.js'), '--version')).toEqual({ out: `${version}\n`, error: '', code: 0 })
  const refused = await run(join(alone, 'main.js'))
  expect(refused).toMatchObject({ out: '', code: 1 })
  expect(refused.error).toMatch(/^Slipway needs Node 24\.12 or newer .*install Node 24.*\n$/)
})

test('a server whose output no one reads any more stops', async () => {
  const child = spawnCli(['demo'])
  const end = exitCode(child)
  const out = must(child.stdout, 'stdout')
  await firstLines(child, 1)
  out.destroy()
  expect(await end).toBe(0)
})

test('the demo succeeds, kills a server, and leaves nothing behind', async () => {
  const temporary = await mkdtemp(join(directory, 'tmp-'))
  const demo = await runCli(['demo', '--fast'], '', { TMPDIR: temporary })
  expect(demo).toMatchObject({ code: 0, stderr: '' })
  expect(demo.stdout).toContain('byte for byte')
  expect(demo.stdout).toContain('▸ terminal [HIGH] rm -rf build')
  expect(demo.stdout).toContain('kill -9: the command had begun')
  expect(demo.stdout).toContain('The server was killed, the log has every step')
  expect(demo.stdout).not.toContain('\u001b')
  // Node caches compiled code.
  expect((await readdir(temporary)).filter((name) => name !== 'node-compile-cache')).toEqual([])
})

test('the demo keeps its server until Ctrl-C when it is asked to', async () => {
  const temporary = await mkdtemp(join(directory, 'tmp-'))
  const child = spawnCli(['demo', '--fast', '--keep'], { TMPDIR: temporary })
  const end = exitCode(child)
  let printed = ''
  for await (const chunk of must(child.stdout, 'stdout').iterator({ destroyOnReturn: false })) {
    printed += chunk
    if (printed.includes('Ctrl-C stops the server')) break
  }
  must(child.stdout, 'stdout').resume()
  const [, address = ''] = /(http:\S+)\/#token=/.exec(printed) ?? []
  expect((await fetch(`${address}/alive`)).status).toBe(200)
  child.kill('SIGINT')
  expect(await end).toBe(0)
  expect((await readdir(temporary)).filter((name) => name !== 'node-compile-cache')).toEqual([])
})
