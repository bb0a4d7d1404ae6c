import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { canSandboxCommands } from '../../packages/agent/src/tools/testing/can-sandbox-commands.ts'
import { sandboxNetworkEnv } from '../../packages/cli/src/testing/sandbox-network.ts'
import {
  AgentDriver,
  bashStep,
  finishStep,
  scriptedModel,
  toolCall,
  toolCallsStep,
} from '../support/agent-driver.ts'
import { AgentServerApi, type ApiEvent } from '../support/agent-server-api.ts'
import { type CommandServer, testUsers, UserPrograms } from '../support/user-programs.ts'

/**
 * What a user has set up continues working in their own repository, beside the walls against foreign ones.
 */

vi.setConfig({ testTimeout: 600_000, hookTimeout: 120_000 })

let home: string
let root: string
let user: UserPrograms
const servers: CommandServer[] = []

beforeEach(() => {
  // Other users reach no folder of the tests.
  home = mkdtempSync('/var/tmp/sw-own-')
  chmodSync(home, 0o755)
  root = join(home, 'work')
})

afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop()
  await user.runCli(['stop'], { cwd: home })
  rmSync(home, { recursive: true, force: true })
})

function git(cwd: string, ...args: string[]): string {
  const env = { PATH: process.env.PATH, HOME: home, GIT_CONFIG_NOSYSTEM: '1' }
  return execFileSync('git', args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
    .toString()
    .trim()
}

/** A server that says where it runs. */
const placeServer = `
import { createInterface } from 'node:readline'
const send = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize') send(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'place', version: '1' } })
  if (method === 'tools/list') send(id, { tools: [{ name: 'place_' + process.argv[2], inputSchema: { type: 'object' } }] })
  if (method === 'tools/call') send(id, { content: [{ type: 'text', text: process.argv[2] + ' in ' + process.cwd() + ' for ' + process.env.SLIPWAY_WORKSPACE }] })
})
`

/** A filter of the user's configuration stands for Git LFS: capitals are what git stores. */
function prepare(): void {
  writeFileSync(
    join(home, '.gitconfig'),
    `[user]
	name = Ann
	email = ann@example.test
[init]
	defaultBranch = main
[filter "lfs"]
	clean = tr a-z A-Z
	smudge = tr A-Z a-z
	required = true
[url "ssh://git@private.example.test${home}/"]
	insteadOf = https://private.example.test/
`,
  )
  mkdirSync(join(root, 'tools'), { recursive: true })
  writeFileSync(join(root, '.gitattributes'), '*.big filter=lfs diff=lfs merge=lfs -text\n')
  writeFileSync(join(root, 'picture.big'), 'many bytes\n')
  writeFileSync(join(root, 'a.txt'), 'one\n')
  git(root, 'init', '-q')
  git(root, 'add', '-A')
  git(root, 'commit', '-qm', 'first')
  user.install('own/place.mjs', placeServer)
  // Stands for ssh: it lets no one in without the key of the user.
  user.install(
    'bin/ssh',
    '#!/bin/sh\n[ -r "$HOME/.ssh/id" ] || exit 255\nfor last; do :; done\nexec sh -c "$last"\n',
  )
  mkdirSync(join(home, '.ssh'))
  writeFileSync(join(home, '.ssh/id'), 'x')
  const plugin = join(home, 'plugin-work')
  mkdirSync(join(plugin, '.claude-plugin'), { recursive: true })
  mkdirSync(join(plugin, 'hooks'))
  writeFileSync(
    join(plugin, '.claude-plugin/plugin.json'),
    JSON.stringify({ name: 'private', version: '1.0.0' }),
  )
  const hook = { hooks: [{ command: `touch ${home}/hook-of-plugin` }] }
  writeFileSync(join(plugin, 'hooks/hooks.json'), JSON.stringify({ SessionStart: [hook] }))
  git(plugin, 'init', '-q')
  git(plugin, 'add', '-A')
  git(plugin, 'commit', '-qm', 'first')
  git(home, 'clone', '-q', '--bare', plugin, 'plugin.git')
  user.own()
}

const place = (name: string, more: object) => ({
  command: process.execPath,
  args: [join(home, 'own/place.mjs'), name],
  ...more,
})

/** What tools answered. */
function resultsOf(events: readonly ApiEvent[]): string {
  return JSON.stringify(events.filter(({ kind }) => /Observation|Error/.test(kind)))
}

async function useServers(driver: AgentDriver): Promise<void> {
  const mcp_config = {
    absolute: place('absolute', { cwd: join(home, 'own') }),
    relative: place('relative', { cwd: 'tools' }),
    workspace: { command: process.execPath, args: ['../own/place.mjs', 'workspace'], cwd: 'workspace' },
    none: place('none', {}),
  }
  const names = Object.keys(mcp_config)
  const script = [toolCallsStep(...names.map((name) => toolCall(`${name}_place_${name}`))), finishStep()]
  const { id } = await driver.create({ llm: scriptedModel(script), mcp_config }, begin)
  const text = resultsOf(await driver.waitUntilIdle(id))
  for (const [name, folder] of [
    ['absolute', join(home, 'own')],
    ['relative', join(root, 'tools')],
    ['workspace', root],
  ])
    expect(text).toContain(`${name} in ${folder} for ${root}`)
  expect(text).toMatch(/none in \/\S* for /)
  expect(text).not.toContain(`none in ${root}`)
}

const begin = { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } }

/** Git has to look at the content of all files. */
function touch(folder: string): void {
  for (const name of ['picture.big', 'a.txt']) utimesSync(join(folder, name), new Date(), new Date(0))
}

async function useLargeFiles(driver: AgentDriver): Promise<void> {
  const { api } = driver
  touch(root)
  const changes = async (path: string) =>
    (await api.requestJson(`/api/git/changes?path=${encodeURIComponent(path)}`)).body
  expect(await changes(root)).toEqual([])
  const script = [
    bashStep('cat picture.big; echo more bytes >> picture.big; git status --short'),
    finishStep(),
  ]
  const { id } = await driver.create({ llm: scriptedModel(script) }, { ...begin, worktree: true })
  const text = resultsOf(await driver.waitUntilIdle(id))
  expect(text).toContain('many bytes')
  expect(text).toContain(' M picture.big')
  const { working_dir } = (await driver.getInfo(id)).workspace
  expect(working_dir).not.toBe(root)
  expect(await changes(working_dir)).toMatchObject([{ status: 'UPDATED', path: 'picture.big' }])
  const file = encodeURIComponent(join(working_dir, 'picture.big'))
  expect((await api.requestJson(`/api/git/diff?path=${file}`)).body).toMatchObject({
    modified: 'many bytes\nmore bytes',
  })
  const { body } = await api.requestJson<{ id: string }[]>(`/api/conversations/${id}/checkpoints`)
  const [checkpoint] = (Array.isArray(body) ? body : (body as { items: { id: string }[] }).items) as {
    id: string
  }[]
  const restored = await api.fetch(`/api/conversations/${id}/checkpoints/${checkpoint?.id}/restore`, {
    method: 'POST',
  })
  expect(restored.status).toBe(200)
  expect(readFileSync(join(working_dir, 'picture.big'), 'utf8')).toBe('many bytes\n')
}

async function usePlugin(driver: AgentDriver): Promise<void> {
  const source = 'https://private.example.test/plugin.git'
  const installed = await driver.api.sendJson('POST', '/api/plugins/install', { source })
  expect(installed).toMatchObject({ status: 200, body: { name: 'private' } })
  const { id } = await driver.createScripted([finishStep()])
  await driver.waitUntilIdle(id)
  expect(readFileSync(join(home, 'hook-of-plugin'), 'utf8')).toBe('')
}

/** Data of this user in the working directory, as earlier versions had it. */
async function useEarlierData(): Promise<void> {
  const cwd = join(home, 'earlier')
  mkdirSync(cwd)
  user.own(cwd)
  const start = async (args: readonly string[]) => {
    const server = await user.serve(['serve', '--no-console', ...args], { cwd })
    return {
      server,
      api: new AgentServerApi({ url: server.url, headers: { 'x-session-api-key': server.key } }),
    }
  }
  const first = await start(['--data', '.slipway'])
  const { id } = await new AgentDriver({ api: first.api, directory: cwd }).createScripted([
    finishStep('Earlier.'),
  ])
  await new AgentDriver({ api: first.api, directory: cwd }).waitUntilIdle(id)
  await first.server.stop()
  const refused = await user.runCli(['ls'], { cwd })
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('slipway data --adopt') })
  expect((await user.runCli(['data', '--adopt'], { cwd })).stdout).toBe(`${join(cwd, '.slipway')}\n`)
  const second = await start([])
  expect(second.server.key).toBe(first.server.key)
  expect((await second.api.export(id)).toString()).toContain('Earlier.')
  expect((await user.runCli(['ls'], { cwd })).stdout).toContain(id.slice(0, 8))
  await second.server.stop()
}

async function copyToSandbox(): Promise<void> {
  const server = await user.serve(['sandbox-server', '--no-console', '--data', join(home, 'boxes')], {
    cwd: home,
    env: sandboxNetworkEnv(),
  })
  servers.push(server)
  const headers = { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' }
  const script = [bashStep('git status --short; echo two >> a.txt'), { text: 'Done.' }]
  const settings = JSON.stringify({ agent_settings_diff: { llm: { model: 'scripted/test', script } } })
  await fetch(`${server.url}/api/v1/settings`, { method: 'POST', headers, body: settings })
  const env = { SLIPWAY_SANDBOX_URL: server.url, SLIPWAY_API_KEY: server.key }
  touch(root)
  const started = await user.runCli(['app', 'start', '--here', 'go', '--follow'], { cwd: root, env })
  expect(started).toMatchObject({ code: 0, stdout: expect.stringContaining('Done.') })
  const [, id = ''] = /Conversation (\S+) in sandbox/.exec(started.stderr) ?? []
  expect((await user.runCli(['app', 'diff', id, '--stat'], { cwd: root, env })).stdout).toBe('+1 -0 a.txt\n')
  expect(await user.runCli(['app', 'apply', id], { cwd: root, env })).toMatchObject({ code: 0 })
  expect(readFileSync(join(root, 'a.txt'), 'utf8')).toBe('one\ntwo\n')
  expect(readFileSync(join(root, 'picture.big'), 'utf8')).toBe('many bytes\n')
  const boxes = await fetch(`${server.url}/api/v1/sandboxes/search`, { headers })
  for (const { id: box } of ((await boxes.json()) as { items: { id: string }[] }).items)
    await fetch(`${server.url}/api/v1/sandboxes/${box}`, { method: 'DELETE', headers })
}

// Root at night alone: it adds no wall to those of an ordinary user.
test.for(testUsers.filter(({ name }) => name !== 'root' || process.env.SLIPWAY_NIGHTLY === '1'))(
  'servers with a cwd, large files, a private plugin and earlier data work as before, for $name',
  async ({ uid, isPossible }, { skip }) => {
    if (!isPossible) skip('the tests are not root')
    if (!canSandboxCommands()) skip('bubblewrap does not work on this host')
    user = new UserPrograms(home, uid)
    prepare()
    const server = await user.serve(['serve', '--no-console'], {
      cwd: root,
      env: { SLIPWAY_CHECKPOINTS: 'true' },
    })
    servers.push(server)
    const api = new AgentServerApi({ url: server.url, headers: { 'x-session-api-key': server.key } })
    const driver = new AgentDriver({ api, directory: root })
    await useServers(driver)
    await useLargeFiles(driver)
    await usePlugin(driver)
    await useEarlierData()
    await copyToSandbox()
  },
)
