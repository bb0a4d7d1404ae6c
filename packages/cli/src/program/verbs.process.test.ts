import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { must } from '@slipway/protocol/client'
import { commandMain } from '@slipway/shared/process/testing'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { runCommand, spawnCommand } from '../testing/command-process.ts'

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 })

const sample = fileURLToPath(new URL('../../../../examples/sample-log/sample.jsonl', import.meta.url))
const ids = ['aaaa1111-0000-4000-8000-000000000001', 'aaaa2222-0000-4000-8000-000000000002']
const key = 'a-session-key-of-this-test'

let directory: string
let url: string
let server: ReturnType<typeof spawnCommand>

const commandOptions = (env: Readonly<Record<string, string>> = {}) => ({
  cwd: directory,
  env: { HOME: directory, ...env },
})
const runCli = (args: readonly string[], input = '', env: Readonly<Record<string, string>> = {}) =>
  runCommand(args, { ...commandOptions(env), input })

const spawnCli = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  spawnCommand(args, commandOptions(env))

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-verbs-test-'))
  const env = { SLIPWAY_SESSION_API_KEY: key, SLIPWAY_LOG_LEVEL: 'error' }
  const args = ['serve', '--port', '0', '--data', 'data', '--json', '--no-console']
  server = spawnCli(args, env)
  server.stderr.resume()
  const [line] = await once(createInterface({ input: server.stdout }), 'line')
  url = JSON.parse(line).url
  const added = await runCli(['context', 'add', 'here', url, '--key-file', '-'], `${key}\n`)
  expect(added).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('agent server at') })
  for (const [at, id] of ids.entries()) {
    const imported = await runCli(['import', sample, '--id', id, '--title', `Title ${at + 1}`])
    expect(imported).toMatchObject({ code: 0 })
  }
})

afterAll(async () => {
  server.kill('SIGTERM')
  if (server.exitCode === null) await once(server, 'close')
  await rm(directory, { recursive: true, force: true })
})

test('a context keeps address and key in a private file, and its key is shown nowhere', async () => {
  const path = join(directory, '.config', 'slipway', 'contexts.json')
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect(await readFile(path, 'utf8')).toContain(key)
  const listed = await runCli(['context'])
  expect(listed.stdout).toMatch(/^\* {1,}here +agent +http/m)
  const json = await runCli(['context', 'ls', '--json'])
  expect(
    json.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toEqual([
    { name: 'here', url, kind: 'agent', has_key: true, is_current: true },
    { name: 'local', url: 'this machine', kind: 'agent', has_key: false, is_current: false },
  ])
  expect(listed.stdout + json.stdout).not.toContain(key)
})

test('a context is added only when its server answers and takes the key', async () => {
  const wrong = await runCli(['context', 'add', 'wrong', url, '--key-file', '-'], 'not-the-key-of-it')
  expect(wrong).toMatchObject({ code: 1, stdout: '' })
  expect(wrong.stderr).toBe('slipway: The server does not accept the key.\n')
  const without = await runCli(['context', 'add', 'wrong', url, '--no-key'])
  expect(without).toMatchObject({ code: 1, stderr: expect.stringContaining('needs a key: name the file') })
  const nobody = await runCli(['context', 'add', 'nobody', 'http://127.0.0.1:9', '--no-key'])
  expect(nobody).toMatchObject({ code: 1, stderr: expect.stringContaining('No answer from') })
  const unknown = await runCli(['--context', 'nobody', 'ls'])
  expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining('There are: here') })
})

test('a context can be added without making it the current one', async () => {
  const keyFile = ['--key-file', '-', '--no-use']
  const added = await runCli(['context', 'add', 'other', url, ...keyFile], `${key}\n`)
  expect(added).toMatchObject({ code: 0, stdout: expect.stringContaining('slipway --context other') })
  expect((await runCli(['context'])).stdout).toMatch(
    /^\* +here .*\n +local .*\n +other |^\* +here .*\n +other /m,
  )
  // The current one stays the current one.
  const again = await runCli(['context', 'add', 'here', url, ...keyFile], `${key}\n`)
  expect(again.stdout).toContain('here is the current context')
  expect((await runCli(['context', 'rm', 'other'])).code).toBe(0)
})

test('the context local leads back to the server of this machine', async () => {
  const added = await runCli(['context', 'add', 'local', url, '--no-key'])
  expect(added).toMatchObject({ code: 1, stderr: expect.stringContaining('built in') })
  expect((await runCli(['context', 'rm', 'local'])).stderr).toContain('built in')
  // At the usual address is no server with this key.
  expect(await runCli(['--context', 'local', 'ls'])).toMatchObject({ code: 1, stdout: '' })
  const ownKey = { SLIPWAY_SESSION_API_KEY: key }
  expect((await runCli(['ls', '-q', '--data', 'data', '--context', 'local'], '', ownKey)).stdout).toContain(
    ids[0],
  )
  const used = await runCli(['context', 'use', 'local'])
  expect(used).toMatchObject({ code: 0, stdout: 'local: the server of this machine\n' })
  expect((await runCli(['context'])).stdout).toMatch(/^ {2}here .*\n\* {1,}local +agent +this machine$/m)
  expect((await runCli(['ls'])).code).toBe(1)
  await runCli(['context', 'use', 'here'])
  expect((await runCli(['ls', '-q'])).stdout).toContain(ids[0])
})

test('commands find a server at another port by its data directory, as long as it runs', async () => {
  const env = { XDG_CONFIG_HOME: join(directory, 'no-contexts'), SLIPWAY_LOG_LEVEL: 'error' }
  const other = spawnCli(['serve', '--port', '0', '--data', 'found', '--json', '--no-console'], env)
  other.stderr.resume()
  const [line] = await once(createInterface({ input: other.stdout }), 'line')
  const note = join(directory, 'found', 'server.json')
  expect(JSON.parse(await readFile(note, 'utf8'))).toMatchObject({
    url: JSON.parse(line).url,
    pid: other.pid,
  })
  expect((await stat(note)).mode & 0o777).toBe(0o600)
  expect(await runCli(['ls', '-q', '--data', 'found'], '', env)).toMatchObject({ code: 0, stdout: '' })
  // A directory that is named means its server, also where a context is the current one.
  expect(await runCli(['ls', '-q', '--data', 'found'])).toMatchObject({ code: 0, stdout: '' })
  const inDirectory = { ...env, SLIPWAY_DATA_DIRECTORY: 'found' }
  expect(await runCli(['ls', '-q'], '', inDirectory)).toMatchObject({ code: 0, stdout: '' })
  other.kill('SIGTERM')
  await once(other, 'close')
  await expect(stat(note)).rejects.toThrow('ENOENT')
  // The note of a server that was killed: its process is gone, or is another one that does not answer.
  for (const pid of [other.pid, process.pid]) {
    await writeFile(note, JSON.stringify({ url: 'http://127.0.0.1:9', pid }))
    await chmod(note, 0o600)
    const missed = await runCli(['ls', '--data', 'found'], '', env)
    expect(missed).toMatchObject({ code: 1, stderr: expect.not.stringMatching(/127\.0\.0\.1:9\b/) })
  }
})

test('the address in a data directory that somebody else has made leads nowhere', async () => {
  const env = { XDG_CONFIG_HOME: join(directory, 'no-contexts') }
  await mkdir(join(directory, 'cloned'))
  const note = join(directory, 'cloned', 'server.json')
  const listening = createServer((_, response) => response.end('[]')).listen(0, '0.0.0.0')
  await once(listening, 'listening')
  const { port } = listening.address() as AddressInfo
  const requests: string[] = []
  listening.on('request', ({ url = '' }) => requests.push(url))
  // Another machine in the file, and a file that others may read, as git makes them.
  const others = Object.values(networkInterfaces()).flatMap((all) => all ?? [])
  const address =
    others.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.1'
  for (const [host, mode] of [
    [address === '127.0.0.1' ? 'example.invalid' : address, 0o600],
    ['127.0.0.1', 0o644],
  ] as const) {
    await writeFile(note, JSON.stringify({ url: `http://${host}:${port}`, pid: process.pid }))
    await chmod(note, mode)
    expect((await runCli(['ls', '--data', 'cloned'], '', env)).code).toBe(1)
  }
  expect(requests).toEqual([])
  listening.close()
})

test('a context without a key uses the one in the data directory of its server', async () => {
  const other = spawnCli(['serve', '--port', '0', '--data', 'own', '--json', '--no-console'], {
    SLIPWAY_LOG_LEVEL: 'error',
  })
  other.stderr.resume()
  const [line] = await once(createInterface({ input: other.stdout }), 'line')
  const env = { SLIPWAY_DATA_DIRECTORY: 'own', XDG_CONFIG_HOME: join(directory, 'own-config') }
  const added = await runCli(['context', 'add', 'own', JSON.parse(line).url, '--no-key'], '', env)
  expect(added).toMatchObject({ code: 0, stderr: '' })
  expect(await runCli(['ls', '-q'], '', env)).toMatchObject({ code: 0, stdout: '' })
  other.kill('SIGTERM')
  await once(other, 'close')
})

test('a file of contexts that others may read is refused', async () => {
  const config = join(directory, 'open', 'slipway')
  await mkdir(config, { recursive: true })
  await writeFile(join(config, 'contexts.json'), '{"contexts":{}}')
  await chmod(join(config, 'contexts.json'), 0o644)
  const refused = await runCli(['ls'], '', { XDG_CONFIG_HOME: join(directory, 'open') })
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('chmod 600') })
})

test('conversations are listed with short ids, whole ones, ids alone and as JSON', async () => {
  const listed = await runCli(['ls'])
  expect(listed.stdout).toMatch(/^ID +STATUS +CHANGED +TITLE$/m)
  expect(listed.stdout).toMatch(/^aaaa2222 +\S+ .*Title 2$/m)
  const wide = (await runCli(['ls', '-o', 'wide'])).stdout
  expect(wide).toMatch(/^ID +STATUS +CHANGED +DIRECTORY +TITLE$/m)
  expect(wide).toMatch(new RegExp(`^${ids[0]} +\\S+ +\\d{4}-\\d\\d-\\d\\d [\\d:]{8}Z +/\\S+ +Title 1$`, 'm'))
  expect((await runCli(['ls', '-q'])).stdout.split('\n')).toEqual([ids[1], ids[0], ''])
  const lines = (await runCli(['ls', '-o', 'json', '-n', '1', '--all'])).stdout.trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line).id)).toEqual([ids[1], ids[0]])
})

test('the first characters of an id name a conversation, and --last the one that changed last', async () => {
  const short = await runCli(['show', 'aaaa1', '--json'])
  expect(JSON.parse(short.stdout)).toMatchObject({ id: ids[0], title: 'Title 1' })
  expect(JSON.parse((await runCli(['show', '--last', '--json'])).stdout).id).toBe(ids[1])
  const several = await runCli(['show', 'aaaa'])
  expect(several).toMatchObject({ code: 1, stdout: '' })
  expect(several.stderr).toContain(`${ids[0]}  Title 1`)
  const none = await runCli(['show', 'bbbb'])
  expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining('"slipway ls" lists them') })
  const exported = await runCli(['export', 'aaaa-2222'])
  expect(exported.stdout).toBe(await readFile(sample, 'utf8'))
  const count = await runCli(['search', '--last', '--count', '--since', '2000-01-01'])
  expect(Number(count.stdout)).toBe(60)
})

test('a title names a conversation: whole, or a part of it that no other has', async () => {
  const named = {
    'dddd1111-0000-4000-8000-000000000006': 'Fix the login page',
    'dddd2222-0000-4000-8000-000000000007': 'Fix the login page, again',
    'dddd3333-0000-4000-8000-000000000008': 'beef',
  }
  const [first = '', second = '', third = ''] = Object.keys(named)
  for (const [id, title] of Object.entries(named))
    await runCli(['import', sample, '--id', id, '--title', title])
  const idOf = async (text: string) => JSON.parse((await runCli(['show', text, '--json'])).stdout).id
  expect(await idOf('Fix the login page')).toBe(first)
  expect(await idOf('LOGIN PAGE, again')).toBe(second)
  expect(await idOf('beef')).toBe(third)
  const several = await runCli(['logs', 'login'])
  expect(several).toMatchObject({ code: 1, stdout: '' })
  expect(several.stderr).toContain('Several conversations fit login:')
  expect(several.stderr).toContain(`${second}  Fix the login page, again`)
  expect(several.stderr).not.toContain('Title 1')
  for (const text of ['no such title', '']) {
    const none = await runCli(['show', text])
    expect(none).toMatchObject({ code: 1, stdout: '' })
    expect(none.stderr).toBe(
      `slipway: No conversation has this id or title: ${text}. "slipway ls" lists them.\n`,
    )
  }
  // Nothing is deleted by a part of a title.
  const kept = await runCli(['rm', 'login page, again'])
  expect(kept).toMatchObject({ code: 1, stderr: expect.stringContaining('Name its whole title here.') })
  const listed = async (...flags: string[]) =>
    (await runCli(['ls', '-q', ...flags])).stdout.trimEnd().split('\n')
  expect(await listed('LOGIN')).toEqual([second, first])
  expect(await listed('login', '-n', '1', '--all')).toEqual([second, first])
  const page = await runCli(['ls', 'login', '-n', '1'])
  expect(page).toMatchObject({ code: 0, stderr: 'There are more: --all\n' })
  expect(await runCli(['ls', 'no such title'])).toMatchObject({ code: 0, stdout: '', stderr: 'None fits.\n' })
  for (const title of Object.values(named).reverse())
    expect(await runCli(['rm', title])).toMatchObject({ code: 0 })
})

test('ls --here lists those of the current directory and of directories below it', async () => {
  const env = { LLM_MODEL: 'scripted/demo' }
  const above = join(directory, 'here')
  await mkdir(join(above, 'below'), { recursive: true })
  await mkdir(join(directory, 'here-too'))
  const idsBy = new Map<string, string>()
  for (const name of ['here', 'here/below', 'here-too']) {
    const run = ['run', 'Say something', '--detach', '--json', '--workspace', join(directory, name)]
    idsBy.set(name, JSON.parse((await runCli(run, '', env)).stdout).conversation_id)
  }
  const list = async (cwd: string) => {
    const { stdout } = await runCommand(['ls', '--here', '-q'], { ...commandOptions(), cwd })
    return stdout.trimEnd().split('\n').sort()
  }
  const [own = '', below = ''] = idsBy.values()
  expect(await list(above)).toEqual([own, below].sort())
  expect(await list(join(above, 'below'))).toEqual([below])
  for (const id of idsBy.values()) {
    await runCli(['tail', id, '--until-idle'])
    const shown = await runCli(['show', id])
    expect(shown.stdout).toMatch(/^created +\d{4}-\d\d-\d\d [\d:]{8}Z$/m)
    expect(shown.stdout).toMatch(/^tokens +\d+ in, \d+ out$/m)
    await runCli(['rm', id])
  }
})

test('where the sandbox server is named too, an unknown conversation may be one of it', async () => {
  const env = { SLIPWAY_SANDBOX_URL: 'http://127.0.0.1:9' }
  const hint = 'Conversations of the sandbox server: slipway context add NAME http://127.0.0.1:9\n'
  for (const text of ['ffff1111-0000-4000-8000-000000000009', 'ffff1', 'no title']) {
    const unknown = await runCli(['logs', text], '', env)
    expect(unknown).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(hint) })
    expect((await runCli(['logs', text])).stderr).not.toContain('sandbox server')
  }
})

test('logs are the steps as text, and follow until Ctrl-C', async () => {
  const { stdout, code } = await runCli(['logs', 'aaaa1111'])
  expect(code).toBe(0)
  expect(stdout).toMatch(/^You$/m)
  expect(stdout).toMatch(/^Agent$/m)
  const child = spawnCli(['logs', '-f', 'aaaa1111'])
  const printed: string[] = []
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    printed.push(String(chunk))
    if (printed.join('').length >= stdout.length) break
  }
  child.kill('SIGINT')
  const [status] = await once(child, 'close')
  expect(status).toBe(0)
})

test('what follows a log says at once that its server is gone, and when it is back', async () => {
  const start = async (port: string) => {
    const args = ['serve', '--port', port, '--data', 'gone', '--json', '--no-console', '--no-key']
    const child = spawnCli(args, { SLIPWAY_LOG_LEVEL: 'error' })
    child.stderr.resume()
    const [line] = await once(createInterface({ input: child.stdout }), 'line')
    return { child, address: String(JSON.parse(line).url) }
  }
  const first = await start('0')
  const id = 'eeee1111-0000-4000-8000-000000000005'
  await runCli(['--url', first.address, 'import', sample, '--id', id])
  const followers = ['tail', 'logs'].map((name) =>
    spawnCli(['--url', first.address, name, id, ...(name === 'logs' ? ['-f'] : [])]),
  )
  const notes = followers.map(() => '')
  for (const [at, { stdout, stderr }] of followers.entries()) {
    stderr.on('data', (chunk) => {
      notes[at] += chunk
    })
    await once(stdout, 'data')
  }
  const expectNotes = (text: string) =>
    vi.waitFor(() => expect(notes).toEqual([text, text]), { timeout: 60_000 })
  first.child.kill('SIGKILL')
  await expectNotes('Connection lost, trying again …\n')
  const second = await start(String(new URL(first.address).port))
  await expectNotes('Connection lost, trying again …\nConnected again.\n')
  for (const child of [...followers, second.child]) {
    child.kill('SIGINT')
    await once(child, 'close')
  }
})

test('a title is changed, and conversations are deleted together or not at all', async () => {
  const id = 'cccc1111-0000-4000-8000-000000000003'
  await runCli(['import', sample, '--id', id])
  expect(await runCli(['rename', 'cccc1', 'Σίγμα \u001b[31m'])).toMatchObject({
    code: 0,
    stdout: 'renamed\n',
  })
  const shown = await runCli(['show', 'cccc1'])
  expect(shown.stdout).toContain('Σίγμα ␛[31m')
  expect(await runCli(['rm', 'cccc1', 'dddd1'])).toMatchObject({ code: 1, stdout: '' })
  expect(await runCli(['rm', 'cccc1'])).toMatchObject({
    code: 0,
    stdout: 'removed cccc1111  Σίγμα ␛[31m\n',
  })
  expect((await runCli(['ls', '-q'])).stdout).not.toContain(id)
  expect((await runCli(['pending'])).stderr).toContain('Nothing waits')
})

test('every help names the flags of all commands, and the version is a command too', async () => {
  for (const command of [['ls'], ['search'], ['app', 'start'], ['context', 'add']]) {
    const help = await runCli([...command, '--help'])
    for (const flag of ['--json', '--context', '--output-format', '--url'])
      expect(help.stdout, command.join(' ')).toContain(flag)
  }
  const versions = await Promise.all([['version'], ['-v'], ['--version']].map((args) => runCli(args)))
  expect(new Set(versions.map(({ stdout }) => must(stdout, 'output')))).toHaveLength(1)
})

test('a run may be left alone, and answers itself under its conversation', async () => {
  const env = { LLM_MODEL: 'scripted/demo' }
  const started = await runCli(
    ['run', 'Say something', '--detach', '--json', '--workspace', directory],
    '',
    env,
  )
  expect(started).toMatchObject({ code: 0, stderr: expect.stringContaining('slipway logs -f') })
  const id: string = JSON.parse(started.stdout).conversation_id
  const logs = await runCli(['tail', id, '--until-idle'])
  expect(logs.stdout).toContain('The script is over.')
  await runCli(['rm', id])
})

test('shells complete commands, flags, their values, contexts and conversations with their titles', async () => {
  const complete = async (...words: string[]) => (await runCli(['__complete', ...words])).stdout
  expect(await complete('sho')).toMatch(/^show\tshow a conversation/)
  expect(await complete('context', 'u')).toMatch(/^use\t/)
  expect(await complete('logs', '--fol')).toMatch(/^--follow\t/)
  expect(await complete('ls', '-o', 'j')).toBe('json\t\n')
  expect(await complete('--context', '')).toMatch(/^here\thttp/)
  expect(await complete('show', 'aaaa1')).toBe('aaaa1111\tTitle 1\n')
  expect(await complete('run', '--conversation', 'aaaa2')).toBe('aaaa2222\tTitle 2\n')
  expect(await complete('import', '')).toBe('')
})

test('the completion of bash works in bash', async () => {
  const script = `slipway() { '${process.execPath}' '${commandMain}' "$@"; }
    . <(slipway completion bash)
    COMP_WORDS=(slipway show aaaa2); COMP_CWORD=2; _slipway; echo "\${COMPREPLY[@]}"`
  const inherited = Object.entries(process.env).filter(([name]) => !/^(SLIPWAY|LLM|XDG)_/.test(name))
  const shell = spawn('bash', ['-c', script], { env: { ...Object.fromEntries(inherited), HOME: directory } })
  shell.stderr.resume()
  expect(await text(shell.stdout)).toBe('aaaa2222\n')
  for (const name of ['zsh', 'fish'])
    expect((await runCli(['completion', name])).stdout).toContain('__complete')
})

test('an archive is imported with the id, title and status of its conversation, byte for byte', async () => {
  const id = 'aaaa3333-0000-4000-8000-000000000003'
  await runCli(['import', sample, '--id', id, '--title', 'An archive'])
  const before = JSON.parse((await runCli(['show', id, '--json'])).stdout)
  const file = join(directory, 'archive.zip')
  expect(await runCli(['export', id, '--format', 'archive', '--output', file])).toMatchObject({ code: 0 })
  expect(await runCli(['rm', id, '--yes'])).toMatchObject({ code: 0 })
  expect(await runCli(['import', file])).toMatchObject({ code: 0, stdout: expect.stringContaining(id) })
  expect((await runCli(['export', id])).stdout).toBe(await readFile(sample, 'utf8'))
  const { title, execution_status } = JSON.parse((await runCli(['show', id, '--json'])).stdout)
  expect({ title, execution_status }).toEqual({
    title: 'An archive',
    execution_status: before.execution_status,
  })
  const folder = await runCli(['import', directory])
  expect(folder).toMatchObject({ code: 1, stderr: expect.stringContaining('it has no events/event-') })
  expect(await runCli(['rm', id, '--yes'])).toMatchObject({ code: 0 })
})
