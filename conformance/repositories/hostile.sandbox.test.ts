import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { agentServerRoutes, type Route } from '@slipway/protocol'
import { carelessMarks } from '@slipway/shared/git/testing'
import { agentServerMain } from '@slipway/shared/process/testing'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { canSandboxCommands } from '../../packages/agent/src/tools/testing/can-sandbox-commands.ts'
import { sandboxNetworkEnv } from '../../packages/cli/src/testing/sandbox-network.ts'
import { AgentDriver, bashStep, finishStep } from '../support/agent-driver.ts'
import { startProcess } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'
import { attacks, HostileClone, outsideText } from '../support/hostile-clone.ts'
import { MockProvider, type ModelReply, type ProviderRequest } from '../support/mock-provider.ts'
import { type CommandServer, testUsers, UserPrograms } from '../support/user-programs.ts'

/**
 * A repository with every kind of attack, used in every way that Slipway has: as root and as an ordinary
 * user. Each attack leaves a mark when it runs. Before consent there is none; at the end careless programs
 * make all.
 */

vi.setConfig({ testTimeout: 600_000, hookTimeout: 120_000 })

const support = (name: string) => join(import.meta.dirname, '../support', name)
const scriptedAgent = join(import.meta.dirname, '../../packages/agent/src/acp/testing/scripted-agent.ts')
const languageServer = join(
  import.meta.dirname,
  '../../packages/agent/src/tools/lsp/testing/scripted-server.mjs',
)

let clone: HostileClone
let user: UserPrograms
let provider: MockProvider
const servers: CommandServer[] = []

beforeEach(async () => {
  // Other users reach no folder of the tests.
  clone = new HostileClone('/var/tmp')
  provider = await MockProvider.open()
})

afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop()
  await user.runCli(['stop'], { cwd: user.home })
  await provider[Symbol.asyncDispose]()
  clone[Symbol.dispose]()
})

/** Programs that the user has installed, of the names that the repository has too. */
function installPrograms(): void {
  user.install('npm/bin/notes-server', `#!/bin/sh\nexec node ${support('stdio-mcp-server.ts')}\n`)
  user.install('npm/bin/acp-agent', `#!/bin/sh\nexec node ${scriptedAgent} "$@"\n`)
  user.install(
    'python/notes_server.py',
    `import os\nos.execvp("node", ["node", "${support('stdio-mcp-server.ts')}"])\n`,
  )
  user.install(
    'bin/typescript-language-server',
    `#!/bin/sh\ntouch "$HOME/language-server"\nexec node ${languageServer}\n`,
  )
  user.install('bin/node_modules/typescript/lib/tsserver.js', '')
  writeFileSync(
    join(user.home, '.npmrc'),
    `prefix=${user.home}/npm\noffline=true\nregistry=http://127.0.0.1:9/\nupdate-notifier=false\n`,
  )
}

const userServers = () => ({
  npx: { command: 'npx', args: ['-y', 'notes-server'] },
  python: {
    command: '/usr/bin/python3',
    args: ['-m', 'notes_server'],
    // The empty part names the folder of the program.
    env: { PYTHONPATH: `:${user.home}/python` },
  },
})

/** Data of a server whose author left a run that continues with a command at the next start. */
async function writeState(): Promise<void> {
  const data = join(clone.root, '.slipway')
  const server = await startProcess([agentServerMain, '--port', '0', '--data', data], { SLIPWAY_NO_KEY: '1' })
  const driver = new AgentDriver({
    api: new AgentServerApi({ url: server.url, headers: {} }),
    directory: '/tmp',
  })
  const pidFile = join(user.home, 'pid')
  const steps = [
    bashStep(`echo $$ > ${pidFile}; exec sleep 1000`),
    bashStep(clone.markCommand('state')),
    finishStep(),
  ]
  await driver.createScripted(steps)
  await expect
    .poll(() => existsSync(pidFile) && readFileSync(pidFile, 'utf8'), { timeout: 60_000 })
    .toMatch(/\d\n/)
  await server.stop('SIGKILL')
  process.kill(Number(readFileSync(pidFile, 'utf8')), 'SIGKILL')
}

/** The model makes these calls one after another; agents of the repository run `true`. */
function play(calls: readonly { readonly name: string; readonly arguments: object }[]): void {
  provider.replies = [(response, request) => provider.sendReply(response, request, nextReply(request, calls))]
}

function nextReply({ body }: ProviderRequest, calls: NonNullable<ModelReply['calls']>): ModelReply {
  const messages = body.messages as { role: string }[]
  const turn = messages.filter(({ role }) => role === 'assistant').length
  const isAgentOfRepository =
    !JSON.stringify(body.tools).includes('"task"') && !JSON.stringify(messages).includes('Use it')
  const call = isAgentOfRepository
    ? [{ name: 'terminal', arguments: { command: 'true' } }][turn]
    : calls[turn]
  return call === undefined ? { text: 'Done.' } : { calls: [call] }
}

const file = (command: string, path: string, more: object = {}) => ({
  name: 'file_editor',
  arguments: { command, path: join(clone.root, path), ...more },
})
const task = (subagent_type: string) => ({
  name: 'task',
  arguments: { prompt: 'Do it.', subagent_type, description: 'x' },
})
/** `name` is that of new files. */
const edits = (name: string) => [
  file('view', '.'),
  file('view', 'AGENTS.md'),
  file('insert', 'src/index.ts', { insert_line: 0, new_str: `// ${name}` }),
  file('create', `src/${name}.ts`, { file_text: 'wrong\n' }),
  file('create', `${name}.py`, { file_text: 'x = 1\n' }),
  file('create', `${name}.rs`, { file_text: 'fn main() {}\n' }),
]
const message = { initial_message: { content: [{ type: 'text', text: 'Use it, go.' }] } }

function expectNothingRan(what: string): void {
  expect([what, clone.marks]).toEqual([what, []])
}

async function useCommands(): Promise<void> {
  const cwd = clone.root
  for (const command of ['run go', 'serve --port 0', 'sandbox-server --port 0', 'doctor', 'data']) {
    const refused = await user.runCli(command.split(' '), { cwd })
    expect([command, refused.code, refused.stderr]).toEqual([command, 1, expect.stringContaining('.slipway')])
    expectNothingRan(`refused: ${command}`)
  }
  cpSync(join(cwd, '.slipway'), join(user.home, 'state'), { recursive: true })
  for (const name of ['.slipway', '.slipway-sandboxes']) rmSync(join(cwd, name), { recursive: true })
  user.own()
  play(edits('run'))
  const model = { LLM_MODEL: 'openai-compatible/m', LLM_BASE_URL: `${provider.url}/v1`, LLM_API_KEY: 'k' }
  const run = await user.runCli(['run', 'Use it, go.'], { cwd, env: model })
  expect(run).toMatchObject({ code: 0, stdout: expect.stringContaining('Done.') })
  expectNothingRan('run')
  for (const command of [
    'doctor',
    'doctor --json',
    `trust ${cwd}`,
    'trust --list',
    'pending',
    'ls',
    'du',
    'config',
  ]) {
    const { stdout, stderr } = await user.runCli(command.split(' '), { cwd })
    // biome-ignore lint/suspicious/noControlCharactersInRegex: names of files must not bring any
    expect([command, stdout + stderr]).toEqual([command, expect.not.stringMatching(/[\u0007\u001b\u202e]/)])
    expectNothingRan(command)
  }
}

const routes: readonly (readonly [string, Route])[] = Object.entries(agentServerRoutes)

/**
 * Every address that reads, on each place of the repository: all that the pages of the console call. Returns
 * those that showed what is outside; the API of files reads any file of the machine.
 */
async function readEverything(api: AgentServerApi, id: string): Promise<string[]> {
  const leaks: string[] = []
  const places = ['.', 'a.clean', 'a.diff', 'sub', 'sub/a.clean', 'bare', 'src/index.ts', 'link.txt']
  const get = async (path: string) => {
    const response = await api.fetch(path, { signal: AbortSignal.timeout(60_000) })
    const text = Buffer.from(await response.arrayBuffer()).toString('latin1')
    if (text.includes(outsideText) && !path.startsWith('/api/file/download')) leaks.push(path)
  }
  const { stdout } = await user.run(['git', '-C', clone.root, '-c', 'core.fsmonitor=', 'rev-parse', 'HEAD'], {
    cwd: '/',
  })
  const head = stdout.trim()
  for (const [, { method, path, query }] of routes) {
    if (method !== 'GET') continue
    const filled = path.replaceAll('{conversation_id}', id).replaceAll('{runtime_conversation_id}', id)
    const hasPlace = query?.shape.path !== undefined || path.includes('{path*}')
    for (const place of hasPlace ? places : ['.']) {
      clone.repository.touch()
      const full = join(clone.root, place)
      const named = filled
        .replace('{path*}', encodeURIComponent(path.includes('/workspace/') ? place : full.slice(1)))
        .replace('{sha}', head)
        .replaceAll(/\{\w+\}/g, 'x')
      for (const more of ['', `&ref=HEAD&format=patch&base_ref=HEAD`, '&format=zip', `&commit=${head}`])
        if (more === '' || hasPlace)
          await get(`${named}?path=${encodeURIComponent(full)}&until=idle&first=1&body=x${more}`)
    }
  }
  return leaks
}

/** What the pages of the console send before anything is decided. */
async function sendQuestions(api: AgentServerApi, id: string): Promise<void> {
  const project_dir = clone.root
  const member = `/api/conversations/${id}`
  const questions: [string, object][] = [
    ['/api/skills', { project_dir, load_project: true, load_user: true }],
    ['/api/hooks', { project_dir }],
    ['/api/plugins', { project_dir }],
    ['/api/sub-agents', { project_dir }],
    ['/api/repository-consents', { directory: project_dir }],
    ['/api/workspaces', { workspaces: [{ name: 'work', path: project_dir }] }],
    [`${member}/workspace-ticket`, {}],
    [`${member}/ask_agent`, { question: 'x' }],
    [`${member}/condense`, {}],
    [`${member}/generate_title`, {}],
    [`${member}/fork`, {}],
  ]
  for (const [path, body] of questions) {
    const { status } = await api.sendJson('POST', path, body)
    expect([path, status < 500]).toEqual([path, true])
    expectNothingRan(path)
  }
  for (const [name, server] of Object.entries(userServers()))
    expect([name, await api.sendJson('POST', '/api/mcp/test', { server })]).toMatchObject([
      name,
      { body: { ok: true, tools: ['read_note'] } },
    ])
  expectNothingRan('a server of the user is tested')
}

function hostileAgent() {
  const tools = ['file_editor', 'glob', 'grep', 'apply_patch', 'task_tool_set', 'terminal']
  return {
    llm: provider.llm('compatible'),
    tools: tools.map((name) => ({ name })),
    agent_context: { load_project_skills: true },
    mcp_config: userServers(),
    critic: { kind: 'EmptyPatchCritic' },
  }
}

async function useServer(): Promise<AgentDriver> {
  const server = await user.serve(['serve', '--no-console'], {
    cwd: clone.root,
    env: { SLIPWAY_CHECKPOINTS: 'true' },
  })
  servers.push(server)
  const api = new AgentServerApi({ url: server.url, headers: { 'x-session-api-key': server.key } })
  const driver = new AgentDriver({ api, directory: clone.root })
  const agent = hostileAgent()
  const calls = [
    ...edits('first'),
    { name: 'glob', arguments: { pattern: '**/*' } },
    { name: 'grep', arguments: { pattern: 'outside-of-the' } },
    task('bash-runner'),
    task('other'),
  ]
  play(calls)
  const { id } = await driver.create(agent, message)
  const events = JSON.stringify(await driver.waitUntilIdle(id))
  expectNothingRan('a conversation')
  expect((await driver.getInfo(id)).execution_status).toBe('finished')
  // The servers of the user are there, of both kinds.
  const offered = JSON.stringify(provider.requests[provider.requests.length - 1]?.body.tools)
  expect(offered.match(/read_note/g)?.length).toBeGreaterThanOrEqual(2)
  expect(events).not.toContain(outsideText)
  await expect.poll(() => existsSync(join(user.home, 'language-server')), { timeout: 30_000 }).toBe(true)

  play(edits('second'))
  const second = await driver.create(agent, { ...message, worktree: true })
  await driver.waitUntilIdle(second.id)
  expectNothingRan('a conversation in a worktree')

  play([{ name: 'terminal', arguments: { command: clone.markCommand('command-rules') } }])
  const policy = { confirmation_policy: { kind: 'AlwaysConfirm' } }
  const third = await driver.create({ ...agent, mcp_config: {} }, { ...message, ...policy })
  await driver.waitUntilIdle(third.id)
  expect((await driver.getInfo(third.id)).execution_status).toBe('waiting_for_confirmation')

  const acp = { kind: 'ACPAgent', tools: [], acp_command: ['npx', '-y', 'acp-agent'] }
  const turns = [[{ text: 'I am that of the user.' }]]
  const external = await driver.create({ ...acp, acp_args: [JSON.stringify({ turns })] }, message)
  expect(JSON.stringify(await driver.waitUntilIdle(external.id))).toContain('I am that of the user.')
  expectNothingRan('an external agent')

  expect(await readEverything(api, id)).toEqual([])
  expectNothingRan('the routes that read')
  await sendQuestions(api, id)
  for (const one of [second, third, external])
    expect((await api.fetch(`/api/conversations/${one.id}`, { method: 'DELETE' })).status).toBe(200)
  expectNothingRan('conversations are deleted')
  return driver
}

async function copyToSandbox(): Promise<void> {
  const server = await user.serve(['sandbox-server', '--no-console', '--data', join(user.home, 'boxes')], {
    cwd: user.home,
    env: sandboxNetworkEnv(),
  })
  servers.push(server)
  const script = [bashStep('git status; git diff; npx -y notes-server; true'), { text: 'Done.' }]
  const headers = { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' }
  const settings = JSON.stringify({ agent_settings_diff: { llm: { model: 'scripted/test', script } } })
  const saved = await fetch(`${server.url}/api/v1/settings`, { method: 'POST', headers, body: settings })
  expect(saved.status).toBe(200)
  const env = { SLIPWAY_SANDBOX_URL: server.url, SLIPWAY_API_KEY: server.key }
  clone.repository.touch()
  const started = await user.runCli(['app', 'start', '--here', 'go', '--follow'], { cwd: clone.root, env })
  expect(started).toMatchObject({ code: 0, stdout: expect.stringContaining('Done.') })
  const [, id = ''] = /Conversation (\S+) in sandbox/.exec(started.stderr) ?? []
  expectNothingRan('app start --here')
  for (const command of ['diff', 'apply']) {
    const { code } = await user.runCli(['app', command, id], { cwd: clone.root, env })
    expect([command, code]).toEqual([command, 0])
    expectNothingRan(`app ${command}`)
  }
  const boxes = await fetch(`${server.url}/api/v1/sandboxes/search`, { headers })
  for (const { id: box } of ((await boxes.json()) as { items: { id: string }[] }).items)
    await fetch(`${server.url}/api/v1/sandboxes/${box}`, { method: 'DELETE', headers })
}

/** The attacks work: what needs consent runs after it, and careless programs run everything else. */
async function letEverythingRun({ api }: AgentDriver): Promise<void> {
  const driver = new AgentDriver({ api, directory: clone.root })
  const { body } = await api.sendJson('POST', '/api/repository-consents', { directory: clone.root })
  for (const { id } of (body as { items: { id: string }[] }).items)
    await api.sendJson('PUT', `/api/repository-consents/${id}`, { decision: 'allow' })
  const told: string[] = []
  const converse = async (calls: Parameters<typeof play>[0], more: object = {}) => {
    play(calls)
    const { id } = await driver.create({ ...hostileAgent(), mcp_config: {} }, { ...message, ...more })
    const events = await driver.waitUntilIdle(id)
    told.push(
      ...events.filter(({ kind }) => /Error|Observation/.test(kind)).map((one) => JSON.stringify(one)),
    )
  }
  await converse([task('bash-runner'), task('other')])
  // Whose server ends at once.
  for (const name of ['helper', 'server'])
    await converse([], { plugins: [{ source: join(clone.root, '.agents/plugins', name) }] })
  await converse([{ name: 'terminal', arguments: { command: clone.markCommand('command-rules') } }], {
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
  await clone.trigger(user)
  const server = await user.serve(['serve', '--no-console', '--data', join(user.home, 'state')], {
    cwd: user.home,
  })
  servers.push(server)
  await expect.poll(() => clone.marks, { timeout: 60_000 }).toContain('state')
  // Those of its first commit are shown where git's calls are: `repository-view.process.test.ts`.
  const ofGit = carelessMarks.filter((name) => !/textconv|diff-external|gpg/.test(name))
  const names = [...attacks.map(({ name }) => name), ...ofGit]
  const missing = names.filter((name) => !clone.marks.includes(name))
  expect(missing, `${missing}: ${told.join('\n')}`).toEqual([])
}

// Root at night alone: it adds no wall to those of an ordinary user.
test.for(testUsers.filter(({ name }) => name !== 'root' || process.env.SLIPWAY_NIGHTLY === '1'))(
  'nothing of a repository with all kinds of attacks runs before consent, for $name',
  async ({ uid, isPossible }, { skip }) => {
    if (!isPossible) skip('the tests are not root')
    if (!canSandboxCommands()) skip('bubblewrap does not work on this host')
    user = new UserPrograms(clone.home, uid)
    installPrograms()
    await writeState()
    cpSync(join(clone.root, '.slipway'), join(clone.root, '.slipway-sandboxes'), { recursive: true })
    clone.commit()
    user.own()
    await useCommands()
    const driver = await useServer()
    await copyToSandbox()
    await letEverythingRun(driver)
  },
)
