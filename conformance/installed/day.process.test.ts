import { spawnSync } from 'node:child_process'
import { access, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { SandboxServerClient } from '@slipway/client'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { sandboxNetworkEnv } from '../../packages/cli/src/testing/sandbox-network.ts'
import { MockProvider } from '../support/mock-provider.ts'
import { type BackgroundServer, findMachineNode, InstalledCommand } from './installed-command.ts'

/**
 * A day with the installed command: npm installs the package into an empty prefix, with the Node of
 * the machine, which may be one that is too old to run Slipway; more than 100 commands; npm uninstalls
 * it. The tests are the hours of one day: each needs those before it.
 */
vi.setConfig({ testTimeout: 180_000, hookTimeout: 300_000 })

const mcpServer = resolve(import.meta.dirname, '../support/stdio-mcp-server.ts')
const canary = 'canary-of-the-day-7f3c1de2'
const modelKey = 'sk-model-key-of-the-day'
const node = findMachineNode()
if (!node.isOld) console.warn('The Node of this machine is no old one: the day is run with it.')
const hasBubblewrap = [
  ['bwrap', '--ro-bind', '/', '/', 'true'] as const,
  ['pasta', '--version'] as const,
].every(([program, ...args]) => spawnSync(program, args).status === 0)

const provider = await MockProvider.open()
const day = await InstalledCommand.open(node.directory)
const skipReason = await day.install()
if (skipReason !== undefined && process.env.SLIPWAY_INSTALLED === '1') throw new Error(skipReason)
if (skipReason !== undefined) console.warn(`SKIPPED: the day with an installed command: ${skipReason}`)
let hasFailed = false
const hour = (name: string, run: () => Promise<void>) =>
  test.skipIf(skipReason !== undefined)(name, async ({ skip }) => {
    skip(hasFailed, 'an earlier hour has failed')
    hasFailed = true
    await run()
    hasFailed = false
  })

let server: BackgroundServer
let sandboxServer: BackgroundServer

/** The folders above are of other data too, and are there when it is. */
const isComponent = /^\.local(\/share(\/slipway-components.*)?)?$/
const isComponents = /^\.local\/share\/slipway-components/

const terminal = (command: string) => ({
  text: 'I work.',
  calls: [{ name: 'terminal', arguments: { command, security_risk: 'LOW', summary: 'a command' } }],
})

beforeAll(async () => {
  await day.shell('git init -qb main && echo hello > notes.txt && git add -A && git commit -qm start')
})
afterAll(async () => {
  await day[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
})

hour('installed: versions, help, an old Node', async () => {
  const { version } = JSON.parse(await readFile(resolve('packages/cli/package.json'), 'utf8'))
  expect((await day.run(['--version'])).stdout).toBe(`${version}\n`)
  if (node.isOld) {
    const refused = await day.run(['doctor'], { code: 1 })
    expect(refused.stderr).toMatch(
      /^Slipway needs Node 24\.12 or newer and this is v\d+.*components add node/,
    )
    expect(refused.stderr.trimEnd()).not.toContain('\n')
    await day.run(['components', 'add', 'node'])
  }
  expect(await day.json(['version'])).toEqual([{ version, node: expect.stringMatching(/^v2[4-9]/) }])
  const components = await day.json(['components', 'ls'])
  expect(components.map(({ name }) => name)).toEqual(['browser', 'node'])
  if (node.isOld) {
    expect(components[1]).toMatchObject({ installed: true })
    // An upgrade replaces the package; Node stays.
    await day.reinstall()
    expect(await day.json(['version'])).toEqual([{ version, node: expect.stringMatching(/^v2[4-9]/) }])
  }
  expect((await day.run(['--help'])).stdout).toContain('slipway')
  expect((await day.run(['rnu', 'hello'], { code: 2 })).stderr).toContain('run')
  await access(join(day.prefix, 'lib/node_modules/slipway/deploy/systemd/slipway-agent-server.service'))
  // Nothing is written before there is something to keep.
  expect((await day.listHome()).filter((path) => !isComponent.test(path))).toEqual([])
  expect((await day.run(['run', 'hello'], { code: 1 })).stderr).toContain('There is no model.')
  expect((await day.run(['doctor'])).stdout).toMatch(
    /^ok +environment Node v2[4-9][\s\S]*no model is configured/,
  )
})

hour('completion of three shells', async () => {
  const words = `. <(slipway completion bash); COMP_WORDS=(slipway sho); COMP_CWORD=1; _slipway; echo $COMPREPLY`
  expect(await day.shell(words)).toBe('show\n')
  for (const shell of ['bash', 'zsh', 'fish'])
    expect((await day.run(['completion', shell])).stdout).toContain('__complete')
  await day.run(['completion', 'csh'], { code: 2 })
})

hour('configuration', async () => {
  const file = join(day.home, '.config/slipway/config.toml')
  expect((await day.run(['config', 'path'])).stdout).toBe(`${file}\n`)
  await day.run(['config', 'get', 'model.name'], { code: 1 })
  await day.run(['config', 'set', 'model.name', 'openai-compatible/m'])
  await day.run(['config', 'set', 'model.base_url', `${provider.url}/v1`])
  await day.run(['config', 'set', 'model.api_key', '-'], { input: `${modelKey}\n` })
  const shown = await day.run(['config', 'set', 'model.api_key', modelKey], { code: 1 })
  expect(shown.stderr).not.toContain(modelKey)
  expect((await day.run(['config', 'get', 'model.name'])).stdout).toBe('openai-compatible/m\n')
  const misspelt = await day.run(['config', 'set', 'model.nmae', 'x'], { code: 1 })
  expect(misspelt.stderr).toContain('model.name')
  await day.run(['config', 'set', 'agent_server.max_concurrent_runs', 'many'], { code: 1 })
  await day.run(['config', 'set', 'agent_server.max_concurrent_runs', '5'])
  await day.run(['config', 'unset', 'agent_server.max_concurrent_runs'])
  const { stdout } = await day.run(['config', 'list'])
  expect(stdout).toMatch(/^model\.name +\S+ +openai-compatible\/m$/m)
  expect(stdout).not.toContain(modelKey)
  const unknown = await day.run(['ls'], {
    code: 1,
    env: { SLIPWAY_LOGLEVEL: 'debug', SLIPWAY_LOG_LEVEL: '' },
  })
  expect(unknown.stderr).toContain('SLIPWAY_LOG_LEVEL')
})

hour('a server in the background, MCP servers and secrets', async () => {
  server = await day.start(['serve', '--port', '0', '--no-console'])
  const url = String(server.ready.url)
  expect(await day.json(['ls'])).toEqual([])
  await day.run(['context', 'add', 'day', url, '--no-key'])
  expect(await day.json(['context', 'ls'])).toMatchObject([
    { name: 'day', url, is_current: true },
    { name: 'local', is_current: false },
  ])
  const again = await day.run(['serve', '--port', '0'], { code: 1 })
  expect(again.stderr).toContain(join(day.home, '.local/share/slipway-servers/project-'))
  expect(await day.shell('git status --porcelain')).toBe('')

  const { stdout } = await day.run(['mcp', 'add', 'notes', '--', process.execPath, mcpServer])
  expect(stdout).toBe('added, with 1 tool: read_note\n')
  const absent = await day.run(['mcp', 'add', 'other', '--', './no-such-program'], { code: 1 })
  expect(absent.stderr).toContain('There is no file')
  expect((await day.json(['mcp', 'ls'])).map(({ name }) => name)).toEqual(['notes'])
  expect((await day.run(['mcp', 'test', 'notes'])).stdout).toContain('read_note')

  await day.run(['secrets', 'set', 'SERVICE_TOKEN', '-'], { input: `${canary}\n` })
  expect(await day.json(['secrets', 'ls'])).toEqual([{ name: 'SERVICE_TOKEN', description: null }])
})

hour('a task, and what is known of it', async () => {
  provider.replies = [
    terminal('echo "token: $SERVICE_TOKEN"; echo done > work.txt'),
    { text: 'I look.', calls: [{ name: 'notes_read_note', arguments: {} }] },
    terminal('ls /no-such-place'),
    { text: 'All of it is done.' },
  ]
  const run = await day.run(['run', 'Do the work', '--secret', 'SERVICE_TOKEN'])
  expect(run.stdout).toMatch(/token: [\s\S]*All of it is done\.[\s\S]*· finished/)
  expect(run.stdout + run.stderr).not.toContain(canary)
  expect(await readFile(join(day.project, 'work.txt'), 'utf8')).toBe('done\n')
  const [{ id }] = await day.json(['ls'])
  expect((await day.run(['ls'])).stdout).toMatch(new RegExp(`^${id.slice(0, 8)} +finished`, 'm'))
  expect(await day.json(['show', '--last'])).toMatchObject([{ id, execution_status: 'finished' }])
  await day.run(['rename', id.slice(0, 8), 'The work'])
  expect((await day.run(['show', '--last'])).stdout).toMatch(/^title +The work$/m)
  provider.replies = [{ text: 'Nothing more.' }]
  await day.run(['send', id, 'And more'])
  expect((await day.run(['tail', id, '--until-idle'])).stdout).toMatch(/MessageEvent[\s\S]*Nothing more\./)
  expect((await day.run(['logs', '--last'])).stdout).toMatch(
    /Do the work[\s\S]*And more[\s\S]*Nothing more\./,
  )
  expect((await day.run(['search', id, '--body', 'THE WORK', '--count'])).stdout).toBe('1\n')
  expect((await day.run(['grep', 'nothing more'])).stdout).toContain(id.slice(0, 8))
  const failed = await day.run(['grep', '--failed', '-o', 'wide'])
  expect(failed.stdout).toMatch(
    /^ {2}\d{4}-\d\d-\d\dT\S+Z {2}ls \/no-such-place {2}exit 2\n +ls: .*no-such-place.*\n/m,
  )
  expect(failed.stdout).not.toContain('[Exit code')
  expect((await day.run(['grep', 'nothing more', '--since', '1h'])).stdout).toContain(id.slice(0, 8))
  expect((await day.run(['grep', 'nothing more', '--until', '1h'])).stderr).toContain('No message contains')
  provider.replies = [{ text: 'It is about work.' }]
  expect((await day.run(['ask', id, 'What is it about?'])).stdout).toContain('It is about work.')
  const joined = await day.run(['attach', '--last'], { code: 1 })
  expect(joined.stderr).toContain('slipway logs -f')
  expect((await day.run(['session', '--print', 'And this'])).stdout).toContain('It is about work.')
})

hour('logs leave and come back', async () => {
  const [{ id }] = (await day.json(['ls'])).filter(({ title }) => title === 'The work')
  await day.run(['export', id, '--output', 'log.jsonl'])
  const copy = 'aaaa1111-0000-4000-8000-000000000001'
  const imported = await day.run(['import', 'log.jsonl', '--id', copy, '--title', 'A copy'])
  expect(imported.stdout).toMatch(/^Imported \d+ events/)
  const exported = await day.run(['export', copy])
  expect(exported.stdout).toBe(await readFile(join(day.project, 'log.jsonl'), 'utf8'))
  expect(exported.stdout).not.toContain(canary)
  await day.run(['import', '-'], { input: 'no json', code: 1 })
  await day.run(['fork', copy, '--title', 'A fork'])
  expect((await day.json(['ls'])).map(({ title }) => title)).toEqual(
    expect.arrayContaining(['A fork', 'A copy']),
  )
  await day.run(['rm', 'aaaa1'])
})

hour('confirmation, pause and interrupt', async () => {
  provider.replies = [terminal('touch allowed.txt'), { text: 'Touched.' }]
  await day.run(['run', 'Touch it', '--ask'], { code: 3 })
  expect((await day.run(['pending'])).stdout).toContain('touch allowed.txt')
  expect((await day.run(['confirm', '--last', '--follow'])).stdout).toContain('Touched.')
  await access(join(day.project, 'allowed.txt'))
  provider.replies = [terminal('touch denied.txt'), { text: 'I do not.' }]
  await day.run(['run', 'Touch another', '--ask'], { code: 3 })
  await day.run(['confirm', '--last', '--reject', '--reason', 'No.', '--follow'])
  expect(await readdir(day.project)).not.toContain('denied.txt')
  expect((await day.run(['pending'])).stderr).toContain('Nothing waits')

  provider.replies = [terminal('until [ -e go ]; do sleep 0.1; done'), { text: 'Not said.' }]
  const [paused] = await day.json(['run', 'Sleep', '--detach'])
  await vi.waitFor(async () => {
    expect(
      (await day.run(['search', paused.conversation_id, '--kind', 'ActionEvent', '--count'])).stdout,
    ).toBe('1\n')
  }, 30_000)
  await day.run(['pause', paused.conversation_id])
  await writeFile(join(day.project, 'go'), '')
  await vi.waitFor(async () => {
    expect(await day.json(['show', paused.conversation_id])).toMatchObject([{ execution_status: 'paused' }])
  }, 30_000)
  provider.replies = [terminal('sleep 500')]
  const [cut] = await day.json(['run', 'Sleep long', '--detach'])
  await vi.waitFor(async () => {
    expect((await day.run(['search', cut.conversation_id, '--kind', 'ActionEvent', '--count'])).stdout).toBe(
      '1\n',
    )
  }, 30_000)
  await day.run(['interrupt', cut.conversation_id])
  await vi.waitFor(async () => {
    expect(await day.json(['show', cut.conversation_id])).toMatchObject([{ execution_status: 'paused' }])
  }, 30_000)
})

hour('data: backup, disk, deletion, restore, examination', async () => {
  const backup = join(day.directory, 'backup')
  expect((await day.run(['backup', backup])).stdout).toMatch(/complete/)
  expect((await day.run(['backup', backup])).stdout).toMatch(/complete/)
  await day.run(['backup', backup, '--verify'])
  expect((await day.run(['du'])).stdout).toMatch(/log\.db[\s\S]*CONVERSATION\n.*[0-9a-f-]{36}\n/)
  expect(await day.json(['doctor', '--deep'])).toMatchObject([{ healthy: true }])
  await day.run(['mcp', 'rm', 'notes'])
  await day.run(['secrets', 'rm', 'SERVICE_TOKEN'])
  const before = (await day.json(['ls', '--all'])).length
  expect((await day.run(['prune', '--older-than', '1d', '--dry-run'])).stdout).toBe('')
  await day.run(['rm', '--last'])
  expect(await day.json(['ls', '--all'])).toHaveLength(before - 1)
  expect((await day.run(['compact'])).stderr).toContain('is in use: asking the server')
  expect(await server.stop()).toBe(0)
  await day.run(['compact'])
  expect((await day.run(['ls'], { code: 1 })).stderr).toContain('slipway serve')
  await day.run(['restore', backup, '--data', 'restored'])
  await day.run(['restore', backup, '--data', 'restored'], { code: 1 })
  await day.run(['doctor', '--data', 'restored', '--deep'])
  server = await day.start(['serve', '--port', '0', '--no-console', '--data', 'restored'])
  await day.run([
    'context',
    'add',
    'restored',
    String(server.ready.url),
    '--key-file',
    'restored/session.key',
  ])
  expect(await day.json(['ls', '--all'])).toHaveLength(before)
  await day.run(['context', 'rm', 'restored'])
})

hour('the server in the background ends', async () => {
  expect(await server.stop()).toBe(0)
  await day.run(['context', 'rm', 'day'])
})

hour('the private server', async () => {
  const cwd = join(day.home, 'project/other')
  await mkdir(cwd)
  provider.replies = [{ text: 'Hello to you.' }]
  expect((await day.run(['run', 'hello'], { cwd })).stdout).toContain('Hello to you.')
  expect((await day.run(['ls'], { cwd })).stdout).toMatch(/^[0-9a-f]{8} +finished/m)
  expect((await day.run(['stop'], { cwd })).stdout).toBe(
    'The private server does not run: it stops on its own after the last session.\n',
  )
  provider.replies = [terminal('sleep 500')]
  const [left] = await day.json(['run', 'Sleep on', '--detach'], { cwd })
  await vi.waitFor(async () => {
    const calls = ['search', left.conversation_id, '--kind', 'ActionEvent', '--count']
    expect((await day.run(calls, { cwd })).stdout).toBe('1\n')
  }, 30_000)
  const stopped = await day.run(['stop'], { cwd })
  expect(stopped.stdout).toBe('stopped\n')
  expect(stopped.stderr).toMatch(
    new RegExp(`paused:\\n {2}${left.conversation_id.slice(0, 8)}.*\\n.*slipway send`),
  )
  expect(await readdir(cwd)).toEqual([])
  expect(await day.processes()).toEqual([])
})

hour('sandboxes, users and limits', async () => {
  sandboxServer = await day.start(['sandbox-server', '--port', '0', '--no-console'], {
    ...(hasBubblewrap ? sandboxNetworkEnv() : { SLIPWAY_ISOLATION: 'none' }),
  })
  const { url, key } = sandboxServer.ready
  const keyFile = join(day.directory, 'key')
  await writeFile(keyFile, String(key))
  await day.run(['context', 'add', 'boxes', String(url), '--key-file', keyFile])
  const client = new SandboxServerClient({ url: String(url), apiKey: String(key) })
  const call = { name: 'terminal', arguments: { command: 'echo changed > notes.txt' } }
  const script = [{ text: 'I work.', tool_calls: [call] }, { text: 'It is changed.' }]
  await client.call('changeSettings', {
    body: { agent_settings_diff: { llm: { model: 'scripted/m', script } } },
  })

  const started = await day.run(['app', 'start', '--here', 'Change it', '--follow'])
  expect(started.stdout).toContain('It is changed.')
  expect((await day.run(['app', 'diff', '--last'])).stdout).toContain('+changed')
  await day.run(['app', 'apply', '--last'])
  expect(await readFile(join(day.project, 'notes.txt'), 'utf8')).toBe('changed\n')
  const [{ id: conversation }] = await day.json(['app', 'list'])
  await day.run(['app', 'download', conversation, '--output', 'conversation.zip'])
  const [sandbox] = await day.json(['sandboxes'])
  expect(sandbox).toMatchObject({ status: 'RUNNING' })
  await day.run(['sandbox', 'pause', sandbox.id])
  expect(await day.json(['sandboxes'])).toMatchObject([{ status: 'PAUSED' }])
  await day.run(['sandbox', 'resume', sandbox.id])

  const { stdout: annsKey } = await day.run(['users', 'add', 'ann', '--per-day', '20'])
  expect(annsKey).toMatch(/^sk-slipway-\S+\n$/)
  expect((await day.run(['users'])).stdout).toMatch(/ 20 +ann$/m)
  expect(await day.json(['quotas', 'set', 'ann', '--per-day', '1'])).toMatchObject([
    { daily_conversation_limit: 1 },
  ])
  await writeFile(keyFile, annsKey)
  await day.run(['context', 'add', 'ann', String(url), '--key-file', keyFile])
  expect((await day.run(['quotas'])).stdout).toMatch(/^conversations today +0 +1 /m)
  expect(await day.json(['ls'])).toEqual([])
  expect((await day.run(['users'], { code: 1 })).stderr).toContain('it needs the scope admin')
  const [added] = await day.json(['keys', 'add', 'dashboard', '--read-only'])
  expect((await day.json(['keys'])).map(({ name }) => name)).toContain('dashboard')
  await day.run(['keys', 'rm', added.id])
  await day.run(['context', 'use', 'boxes'])
  await day.run(['users', 'rm', 'ann'])
  expect((await day.run(['--context', 'ann', 'ls'], { code: 1 })).stderr).toContain('key')
  await day.run(['context', 'rm', 'ann'])

  await day.run(['app', 'rm', conversation])
  expect(await day.json(['sandboxes'])).toEqual([])
  expect(await sandboxServer.stop()).toBe(0)
  await expect.poll(() => day.processes(), { timeout: 30_000 }).toEqual([])
})

hour('uninstalled: what is left is what docs/guide/install.md names', async () => {
  await day.uninstall()
  expect(await readdir(join(day.prefix, 'bin'))).toEqual([])
  expect(await readdir(join(day.prefix, 'lib/node_modules'))).toEqual([])
  const page = await readFile(resolve('docs/guide/install.md'), 'utf8')
  const places = [
    '.local/share/slipway',
    '.local/share/slipway-components',
    '.local/share/slipway-servers',
    '.config/slipway',
    '.cache/slipway',
  ]
  for (const place of places) expect(page).toContain(`| \`~/${place}\``)
  // The text index is built behind the server.
  const own =
    /^\.local\/share\/(slipway\/(conversations\/[0-9a-f]{32}|index\.\w+)$|slipway-servers\/project-)/
  const left = (await day.listHome()).filter((path) => !own.test(path) && !isComponents.test(path))
  expect(left).toEqual([
    '.config',
    '.config/slipway',
    '.config/slipway/config.toml',
    '.config/slipway/contexts.json',
    '.local',
    '.local/share',
    '.local/share/slipway',
    '.local/share/slipway-servers',
    ...[
      'conversations',
      'lock.db',
      'log.db',
      'log.mark',
      'secret.key',
      'server.json',
      'server.log',
      'session.key',
      'sessions',
    ].map((name) => `.local/share/slipway/${name}`),
  ])
  const temporary = await readdir(join(day.directory, 'tmp'), { recursive: true })
  expect(temporary.filter((path) => path !== `slipway-${process.getuid?.()}`)).toEqual([])
  expect(await day.processes()).toEqual([])
  expect(day.commandCount).toBeGreaterThan(60)
})
