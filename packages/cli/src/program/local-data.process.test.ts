import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { runCommand, spawnCommand } from '../testing/command-process.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 })

let home: string
let clone: string

const env = () => ({ HOME: home, SLIPWAY_LOG_LEVEL: 'error' })
const runCli = (args: string, cwd = clone) => runCommand(args.split(' '), { cwd, env: env() })

/** What a server says at its start; it is stopped then. */
async function startOnce(args: string, cwd = clone) {
  const child = spawnCommand([...args.split(' '), '--port', '0', '--no-console'], { cwd, env: env() })
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  const ended = once(child, 'close')
  const ready = once(createInterface({ input: child.stdout }), 'line').then(([line]) => String(line))
  const line = await Promise.race([ready, ended.then(() => Promise.reject(new Error(errors)))])
  child.kill('SIGTERM')
  await ended
  return { ...JSON.parse(line), errors }
}

beforeAll(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'local-')))
  clone = join(home, 'clone')
  await mkdir(clone)
  // The user has used this version before.
  expect((await runCli('data')).code).toBe(0)
  // Somebody else's directory, as an archive brings it.
  await startOnce('serve --json --data made')
  await rename(join(clone, 'made'), join(clone, '.slipway'))
  await cp(join(clone, '.slipway'), join(clone, '.slipway-sandboxes'), { recursive: true })
})

afterAll(() => rm(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 }))

test.for([
  'serve --port 0',
  'sandbox-server --port 0',
  'doctor',
  'doctor --repair',
  'du',
  'compact',
  'accept-log',
  'backup ../kept',
  'restore ../kept',
  'data',
  'data --sandboxes',
  'ls',
  'run hello',
  '--url http://127.0.0.1:9 ls',
])('slipway %s refuses an unknown data directory in the working directory', async (command) => {
  const { code, stdout, stderr } = await runCli(command)
  const name = /sandbox/.test(command) ? '.slipway-sandboxes' : '.slipway'
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toContain(`slipway: ${join(clone, name)} is not known to be your own`)
  expect(stderr).toMatch(/run "slipway data (--sandboxes )?--adopt" there\..* --data\.$/m)
})

test('one that git tracks is refused as such, and not adopted', async () => {
  const repository = join(home, 'repository')
  await cp(clone, repository, { recursive: true })
  const git = (...args: string[]) => execFileSync('git', args, { cwd: repository, stdio: 'pipe' })
  git('init', '-q')
  git('add', '-f', '.slipway/secret.key')
  for (const command of ['serve --port 0', 'du', 'data', 'data --adopt', 'ls']) {
    const { code, stderr } = await runCli(command, repository)
    expect([command, code, stderr]).toEqual([command, 1, expect.stringContaining('which tracks .slipway/')])
  }
})

test('servers that are told no data directory have one for each working directory, outside of it', async () => {
  const own = join(home, 'own')
  await mkdir(own)
  const first = await startOnce('--json serve', own)
  const { stdout } = await runCli('data', own)
  expect(stdout).toContain('/.local/share/slipway-servers/own-')
  expect(first).toMatchObject({ session_key_file: join(stdout.trim(), 'session.key'), errors: '' })
  expect((await stat(stdout.trim())).mode & 0o777).toBe(0o700)
  expect(await runCli('du', own)).toMatchObject({ code: 0, stderr: '' })
  await expect(stat(join(own, '.slipway'))).rejects.toThrow('ENOENT')
  const other = await runCli('data --json', home)
  expect(JSON.parse(other.stdout).data_directory).toContain('/slipway-servers/local-')
})

test('a directory that was adopted is used, and says how it is moved', async () => {
  const own = join(home, 'adopted')
  await cp(clone, own, { recursive: true })
  const adopted = await runCli('data --adopt', own)
  expect(adopted).toMatchObject({ code: 0, stdout: `${join(own, '.slipway')}\n` })
  const { session_key_file, errors } = await startOnce('--json serve', own)
  expect(session_key_file).toBe(join(own, '.slipway/session.key'))
  const move = /^The data is in the working directory\. .*: (mv .*)$/m.exec(errors)?.[1] ?? ''
  const key = await readFile(session_key_file, 'utf8')
  execFileSync('sh', ['-c', move])
  const moved = (await runCli('data', own)).stdout.trim()
  expect(moved).toContain('/slipway-servers/adopted-')
  expect(await startOnce('--json serve', own)).toMatchObject({
    session_key_file: join(moved, 'session.key'),
    errors: '',
  })
  expect(await readFile(join(moved, 'session.key'), 'utf8')).toBe(key)
  // A setting names another one.
  await writeFile(join(home, 'config.toml'), '[agent_server]\ndata_directory = "named"\n')
  const named = await runCommand(['data'], {
    cwd: own,
    env: { ...env(), SLIPWAY_CONFIG: join(home, 'config.toml') },
  })
  expect(named.stdout).toBe(`${join(own, 'named')}\n`)
})

test('documents that files set are shown with their files, which win', async () => {
  const data = join(home, 'set-documents')
  await startOnce(`serve --json --data ${data}`, home)
  const folder = join(home, 'folder')
  await mkdir(join(folder, 'profiles'), { recursive: true, mode: 0o700 })
  await writeFile(join(folder, 'settings.json'), '{}\n')
  await writeFile(join(folder, 'profiles', 'fast.json'), '{}\n')
  const config = join(home, 'documents.toml')
  await writeFile(config, `[agent_server]\ndocuments_directory = ${JSON.stringify(folder)}\n`)
  const documents = (args: string) =>
    runCommand([...`documents ${args}`.split(' '), '--data', data], {
      cwd: home,
      env: { ...env(), SLIPWAY_CONFIG: config },
    })
  const listed = await documents('ls')
  expect(listed.stdout).toMatch(/profiles\/fast\.json +\S+folder\/profiles\/fast\.json/)
  expect(listed.stdout).toMatch(/settings\.sealed +\S+folder\/settings\.json/)
  expect(JSON.parse((await documents('ls --json')).stdout)).toMatchObject({
    documents: expect.arrayContaining([
      { name: 'settings.sealed', bytes: expect.any(Number), read_only_file: join(folder, 'settings.json') },
    ]),
  })
  const file = join(folder, 'workspaces.json')
  await writeFile(file, '{"schema_version":1}\n')
  expect(await documents(`put workspaces.json ${file}`)).toMatchObject({
    code: 0,
    stderr: expect.stringContaining(`from ${file}, which wins`),
  })
  // Of a folder that cannot be read nothing is known, so nothing is changed.
  await rename(folder, `${folder}-moved`)
  expect(await documents('rm workspaces.json')).toMatchObject({ code: 1 })
  await rename(`${folder}-moved`, folder)
  expect((await documents('get workspaces.json')).stdout).toContain('schema_version')
})

test('documents of a data directory are listed, printed, replaced and removed', async () => {
  const data = join(home, 'documents')
  await startOnce(`serve --json --data ${data}`, home)
  await writeFile(join(home, 'workspaces'), '{"schema_version":1}\n')
  const documents = (args: string) => runCli(`documents ${args} --data ${data}`, home)
  expect(await documents('put workspaces.json workspaces')).toMatchObject({ code: 0, stderr: '' })
  expect((await documents('ls')).stdout).toMatch(/21 B +workspaces\.json/)
  expect(await documents('get workspaces.json')).toMatchObject({ code: 0, stdout: '{"schema_version":1}\n' })
  expect((await documents('rm workspaces.json')).code).toBe(0)
  for (const command of ['get', 'rm'])
    expect(await documents(`${command} workspaces.json`)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('There is no document workspaces.json'),
    })
})
