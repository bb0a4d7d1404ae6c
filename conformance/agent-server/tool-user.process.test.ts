import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { writeEditorProgram } from '../../packages/agent-server/src/testing/editor-program.ts'
import { AgentDriver, bashStep, finishStep, toolCall, toolCallsStep } from '../support/agent-driver.ts'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'

vi.setConfig({ testTimeout: 400_000, hookTimeout: 120_000 })

const isRoot = process.platform === 'linux' && process.getuid?.() === 0
const [uid, gid] = [54_321, 54_322]
const secret = 'what-only-root-may-read'

let directory: string
let home: string
let work: string
let server: Awaited<ReturnType<typeof startAgentServer>> | undefined

beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-tool-user-')))
  await chmod(directory, 0o755)
  home = join(directory, 'home')
  work = join(directory, 'work')
  for (const path of [home, work]) {
    await mkdir(path, { mode: 0o755 })
    if (isRoot) await chown(path, uid, gid)
  }
  await mkdir(join(directory, 'private'), { mode: 0o700 })
  await writeFile(join(directory, 'private/secret.txt'), secret, { mode: 0o600 })
})

afterEach(async () => {
  await server?.stop()
  server = undefined
  await rm(directory, { recursive: true, force: true })
})

async function start(env: Readonly<Record<string, string>> = {}) {
  const settings = { SLIPWAY_TOOL_USER: `${uid}:${gid}:${home}`, ...env }
  server = await startAgentServer(join(directory, 'data'), settings)
  const api = new AgentServerApi({ url: server.url, headers: {} })
  return { api, driver: new AgentDriver({ api, directory: work }) }
}

/** Plays steps with all tools of files and commands; returns the log as text. */
async function play(driver: AgentDriver, steps: readonly object[], more: object = {}): Promise<string> {
  const tools = ['terminal', 'file_editor', 'grep', 'glob', 'apply_patch', 'background_terminal']
  const llm = { model: 'scripted/test', usage_id: 'agent', script: [...steps, finishStep()] }
  const { id } = await driver.create(
    { llm, tools: tools.map((name) => ({ name })) },
    { initial_message: { content: [{ type: 'text', text: 'Begin.' }] }, ...more },
  )
  return JSON.stringify(await driver.waitUntilIdle(id))
}

const identity =
  'echo "me=$(id -u)/$(id -g)/$(id -G) $(grep NoNewPrivs /proc/self/status | tr -s "\\t" =) at=$HOME"'
const expected = `me=${uid}/${gid}/${gid} NoNewPrivs:=1 at=`

test.skipIf(!isRoot)(
  'every program of a tool runs as the tool user, without privileges to gain',
  async () => {
    const { api, driver } = await start()
    const hook = `${identity} > ${join(work, 'hook.txt')}`
    const log = await play(
      driver,
      [
        bashStep(`${identity}; tty; echo typed > "$(tty)"`),
        toolCallsStep(
          toolCall('background_terminal', { command: 'start', input: `${identity} > background.txt` }),
        ),
      ],
      {
        hook_config: { stop: [{ hooks: [{ command: hook }] }] },
        mcp_config: { one: { command: 'sh', args: ['-c', `${identity} > ${join(work, 'mcp.txt')}`] } },
      },
    )
    expect(log).toContain(`${expected}${home}`)
    expect(log).toContain('typed')
    const { body } = await api.sendJson('POST', '/api/bash/execute_bash_command', { command: identity })
    expect(JSON.stringify(body)).toContain(`${expected}${home}`)
    const read = async (name: string) => await readFile(join(work, name), 'utf8').catch(() => '')
    await expect.poll(() => read('hook.txt'), { timeout: 30_000 }).toContain(`${expected}${home}`)
  },
)

test.skipIf(!isRoot)(
  'an external agent runs as the tool user, and reads the file of its secret',
  async () => {
    const { driver } = await start()
    const output = join(work, 'external.txt')
    const script = `(${identity}; stat -c %a/%u "$LOGIN"; cat "$LOGIN"; cat ${join(directory, 'private/secret.txt')}) > ${output} 2>&1`
    const { id } = await driver.create(
      {
        kind: 'ACPAgent',
        tools: [],
        acp_command: ['sh', '-c', script],
        acp_file_secrets: [{ secret_name: 'LOGIN_FILE', filename: 'login', env_var: 'LOGIN', subdir: 'own' }],
      },
      {
        secrets: { LOGIN_FILE: 'the-login-of-the-program' },
        initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
      },
    )
    expect(JSON.stringify(await driver.waitUntilIdle(id))).toContain('ACPInitError')
    const text = await readFile(output, 'utf8')
    expect(text).toContain(`${expected}${home}`)
    expect(text).toContain(`600/${uid}\nthe-login-of-the-program`)
    expect(text).not.toContain(secret)
  },
)

test.skipIf(!isRoot)('file tools write as the tool user, and read and write nothing else', async () => {
  const { api, driver } = await start({ SLIPWAY_CONFINE_FILES: 'false' })
  const edit = (args: object) => toolCall('file_editor', args)
  const target = join(directory, 'private/new.txt')
  // A file of root that gives its rights away, in a folder of the tool user.
  const program = join(work, 'program')
  await writeFile(program, 'original\n')
  await chmod(program, 0o6755)
  const addFile = (path: string) =>
    toolCall('apply_patch', { patch: `*** Begin Patch\n*** Add File: ${path}\n+no\n*** End Patch` })
  const steps = [
    toolCallsStep(
      edit({ command: 'create', path: join(work, 'made.txt'), file_text: 'mine' }),
      edit({ command: 'create', path: target, file_text: 'no' }),
      edit({ command: 'view', path: join(directory, 'private/secret.txt') }),
      edit({ command: 'view', path: join(directory, 'private') }),
      edit({ command: 'str_replace', path: program, old_str: 'original', new_str: 'changed' }),
      toolCall('grep', { pattern: 'only-root', path: directory }),
    ),
    toolCallsStep(addFile(target), addFile(join(work, 'a/b.txt'))),
    bashStep(
      `ln -s ${join(directory, 'private/secret.txt')} AGENTS.md; cat ${join(directory, 'data/secret.key')}`,
    ),
    bashStep(`ls ${join(directory, 'data')}; cat ${join(directory, 'data/log.db')}; seq 200000`),
  ]
  const log = await play(driver, steps)
  const again = await play(driver, [bashStep('true')])
  expect(log + again).not.toContain(secret)
  expect(log).toContain('Permission denied')
  const owner = async (path: string) => {
    const { uid, gid, mode } = await stat(path)
    return [uid, gid, mode & 0o7000]
  }
  for (const name of ['made.txt', 'a', 'a/b.txt'])
    expect(await owner(join(work, name))).toEqual([uid, gid, 0])
  expect([await readFile(program, 'utf8'), ...(await owner(program))]).toEqual(['changed\n', uid, gid, 0])
  expect(await readdir(join(directory, 'private'))).toEqual(['secret.txt'])
  // The long output is in a file that the agent can read.
  const savedTo = /output is in (\/[^: ]+)/.exec(log)?.[1] ?? ''
  expect((await owner(savedTo)).slice(0, 2)).toEqual([uid, gid])
  const form = new FormData()
  form.append('file', new Blob(['no']), 'x')
  for (const [path, status] of [
    [target, 403],
    [join(work, 'uploaded.txt'), 200],
  ] as const) {
    const query = `?path=${encodeURIComponent(path)}`
    expect((await api.fetch(`/api/file/upload${query}`, { method: 'POST', body: form })).status).toBe(status)
  }
  expect(await owner(join(work, 'uploaded.txt'))).toEqual([uid, gid, 0])
  const download = `/api/file/download?path=${encodeURIComponent(join(directory, 'private/secret.txt'))}`
  expect((await api.fetch(download)).status).not.toBe(200)
})

test.skipIf(!isRoot)('a folder that becomes a link during an access leads to nothing of root', async () => {
  const { api, driver } = await start()
  await writeFile(join(directory, 'private/x.txt'), secret, { mode: 0o600 })
  // The attacker changes a folder into a link and back, as fast as it can.
  const flip = `mkdir -p real other && echo mine > real/x.txt && ln -s real d && ln -s ${join(directory, 'private')} l
while [ ! -e stop ]; do ln -sfn real d; ln -sfn ${join(directory, 'private')} d; done`
  await api.sendJson('POST', '/api/bash/start_bash_command', { command: flip, cwd: work, timeout: 120 })
  const path = join(work, 'd/x.txt')
  await expect
    .poll(
      () =>
        stat(join(work, 'd')).then(
          () => true,
          () => false,
        ),
      { timeout: 30_000 },
    )
    .toBe(true)
  const call = (at: number) =>
    at % 3 === 0
      ? toolCall('file_editor', { command: 'view', path })
      : toolCall('file_editor', {
          command: 'create',
          path: join(work, `d/new-${at}.txt`),
          file_text: 'planted',
        })
  const steps = Array.from({ length: 12 }, (_, step) =>
    toolCallsStep(...Array.from({ length: 6 }, (_, at) => call(step * 6 + at))),
  )
  const texts: string[] = [await play(driver, steps)]
  for (let at = 0; at < 60; at++) {
    const form = new FormData()
    form.append('file', new Blob(['planted']), 'x')
    const query = `?path=${encodeURIComponent(join(work, `d/upload-${at}.txt`))}`
    await api.fetch(`/api/file/upload${query}`, { method: 'POST', body: form })
    texts.push(await (await api.fetch(`/api/file/download?path=${encodeURIComponent(path)}`)).text())
  }
  await writeFile(join(work, 'stop'), '')
  expect(texts.join('')).not.toContain(secret)
  expect((await readdir(join(directory, 'private'))).sort()).toEqual(['secret.txt', 'x.txt'])
  expect((await readdir(join(work, 'real'))).length).toBeGreaterThan(1)
})

test.skipIf(!isRoot)(
  'worktrees, changes and the removal of a conversation work for the tool user',
  async () => {
    const { api, driver } = await start({ SLIPWAY_CHECKPOINTS: 'true' })
    const git = 'git -c user.name=t -c user.email=t@t'
    const prepare = `git init -q . && echo one > f && git add f && ${git} commit -qm one`
    const { body } = await api.sendJson('POST', '/api/bash/execute_bash_command', {
      command: prepare,
      cwd: work,
    })
    expect(body).toMatchObject({ exit_code: 0 })
    const info = await driver.createScripted([bashStep('echo two > f; seq 200000'), finishStep()], {
      worktree: true,
    })
    await driver.waitUntilIdle(info.id)
    const { working_dir } = (await driver.getInfo(info.id)).workspace
    expect(working_dir).not.toBe(work)
    expect((await stat(working_dir)).uid).toBe(uid)
    const changes = await api.requestJson(`/api/git/changes?path=${encodeURIComponent(working_dir)}`)
    expect(changes.body).toMatchObject([{ status: 'UPDATED', path: 'f' }])
    const checkpoints = await api.requestJson(`/api/conversations/${info.id}/checkpoints`)
    expect(JSON.stringify(checkpoints.body)).toMatch(/[0-9a-f]{40}/)
    const tools = join(home, '.slipway-tools')
    const names = async () =>
      (await readdir(tools, { recursive: true })).filter((name) => name.includes('terminal_output'))
    expect(await names()).not.toEqual([])
    expect((await api.fetch(`/api/conversations/${info.id}`, { method: 'DELETE' })).status).toBe(200)
    await expect.poll(names, { timeout: 20_000 }).toEqual([])
  },
)

test.skipIf(!isRoot)('the editor runs as the tool user', async () => {
  const command = await writeEditorProgram(work)
  const { api, driver } = await start({
    SLIPWAY_CONFINE_FILES: 'false',
    SLIPWAY_EDITOR: '1',
    SLIPWAY_EDITOR_COMMAND: command,
    SLIPWAY_EDITOR_PORT: '0',
  })
  const readUrl = async () => (await api.requestJson('/api/vscode/url')).body
  await expect.poll(readUrl, { timeout: 20_000 }).toMatchObject({ url: expect.any(String) })
  const { url } = (await readUrl()) as { readonly url: string }
  const answer = await fetch(url, { redirect: 'manual' })
  const cookie = answer.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  const state = await (await fetch(new URL('state', url), { headers: { cookie } })).json()
  expect(state).toMatchObject({ uid, env: { HOME: home } })
  const socket = state.args[state.args.indexOf('--socket-path') + 1]
  const view = toolCall('file_editor', { command: 'view', path: dirname(socket) })
  expect(await play(driver, [toolCallsStep(view)])).toContain('which tools must not touch')
})

test('a tool user that cannot be used is refused at the start, with the reason', async () => {
  const attempts: readonly (readonly [string, RegExp])[] = isRoot
    ? [
        ['0:0:/root', /is root/],
        ['no-such-user', /there is no user no-such-user/],
        [`${uid}:${gid}:/nonexistent`, /home directory \/nonexistent is missing/],
      ]
    : [[`${uid}:${gid}:${home}`, /only a server that runs as root/]]
  for (const [setting, reason] of attempts)
    await expect(start({ SLIPWAY_TOOL_USER: setting })).rejects.toThrow(reason)
  if (!isRoot) return
  await mkdir(join(directory, 'data'), { recursive: true })
  await chmod(join(directory, 'data'), 0o755)
  await expect(start()).rejects.toThrow(/can read the data directory/)
})
