import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Secret } from '@slipway/shared/redaction'
import { shellQuote } from '@slipway/shared/text'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../testing/fixtures.ts'
import { openTestServer } from '../testing/test-server.ts'

const slowTestTimeoutMs = 120_000
const author = ['-c', 'user.name=A', '-c', 'user.email=a@b']

function git(directory: string, ...args: string[]): string {
  return execFileSync('git', ['-C', directory, ...author, ...args], {
    env: { PATH: process.env.PATH, HOME: '/nonexistent' },
  }).toString()
}

/** A bare repository `owner/name.git` below a directory, with two commits and a branch `feature/é`. */
function makeRepository(below: string, files: Record<string, string>): string {
  const source = join(below, 'source')
  mkdirSync(join(source, '.openhands'), { recursive: true })
  git(source, 'init', '--quiet', '--initial-branch', 'main')
  git(source, 'commit', '--quiet', '--allow-empty', '-m', 'first')
  for (const [name, text] of Object.entries(files)) writeFileSync(join(source, name), text)
  git(source, 'add', '.')
  git(source, 'commit', '--quiet', '--allow-empty', '-m', 'second')
  git(source, 'branch', 'feature/é')
  const bare = join(below, 'owner', 'name.git')
  git(below, 'clone', '--quiet', '--bare', source, bare)
  git(bare, 'config', 'http.receivepack', 'true')
  return bare
}

/** Every file below a directory whose bytes hold a text. */
function findFilesContaining(directory: string, text: string): string[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => existsSync(path) && readFileSync(path).includes(text))
}

test('a quoted text is exactly one word of bash', () => {
  const words = fc.sample(fc.string({ unit: 'binary' }), 500).map((text) => text.toWellFormed())
  const texts = [...words, '', "'", "a'b''", '$(id) `id` "\\', '\n', '-n', 'é 👋'].map((text) =>
    text.replaceAll('\0', ''),
  )
  const printed = execFileSync('bash', ['-c', `printf '%s\\0' ${texts.map(shellQuote).join(' ')}`]).toString()
  expect(printed.split('\0').slice(0, -1)).toEqual(texts)
})

test('a repository is cloned shallow onto a new branch, its script runs in its root, and its hook runs after the existing one', {
  timeout: slowTestTimeoutMs,
}, async () => {
  using directory = temporaryDirectory()
  const bare = makeRepository(directory.path, {
    '.openhands/setup.sh': 'pwd > .git/where\necho out-line\necho err-line >&2\nfalse\n',
    '.openhands/pre-commit.sh': '#!/bin/sh\necho from the project > .git/hook-ran\nexit 1\n',
  })
  await using stage = await openTestServer()
  stage.accounts.currentSettings = {
    ...stage.accounts.currentSettings,
    git_user_name: "O'Neil $(id)",
    git_user_email: 'o@n.example',
  }
  const task = await stage.start({ selected_repository: `file://${bare}` })
  expect(task.status).toBe('READY')
  expect(task.detail).toContain('setup.sh failed with exit code 1')
  expect(task.detail).toContain('out-line\n\nerr-line')
  const project = join(stage.sandboxes.getSandbox('sb-1').directory, 'project', 'name')
  const conversation = String(task.app_conversation_id)
  expect(git(project, 'branch', '--show-current').trim()).toBe(`slipway/${conversation.slice(0, 8)}`)
  expect(git(project, 'rev-list', '--count', 'HEAD').trim()).toBe('1')
  expect(readFileSync(join(project, '.git/where'), 'utf8').trim()).toBe(project)
  const home = join(stage.sandboxes.getSandbox('sb-1').directory, 'home')
  const config = execFileSync('git', ['config', '--global', 'user.name'], {
    env: { PATH: process.env.PATH, HOME: home },
  })
  expect(config.toString().trim()).toBe("O'Neil $(id)")
  const commit = () => git(project, 'commit', '--allow-empty', '-m', 'x')
  expect(commit).toThrow()
  expect(existsSync(join(project, '.git/hook-ran'))).toBe(true)
  // The agent works in the project.
  const agent = stage.sandboxes.getSandbox('sb-1')
  const info = await fetch(`${agent.url}/api/conversations/${conversation}`, {
    headers: { 'x-session-api-key': agent.key },
  })
  expect((await info.json()).workspace.working_dir).toBe(project)
  const shown = await stage.conversation(conversation)
  expect(shown.selected_repository).toBe(`file://${bare}`)
  const files = await stage.call(
    'GET',
    `/app-conversations/${conversation}/files?path=${encodeURIComponent(project)}`,
  )
  expect(files.json.toSorted()).toEqual(['.openhands/pre-commit.sh', '.openhands/setup.sh'])
  const none = await stage.call('GET', `/app-conversations/${conversation}/files?path=/nowhere`)
  expect(none.status).toBe(404)
  writeFileSync(join(project, 'PLAN.md'), '# é')
  expect((await stage.call('GET', `/app-conversations/${conversation}/file`)).json).toBe('# é')
  expect((await stage.call('GET', `/app-conversations/${conversation}/file?file_path=/nowhere`)).json).toBe(
    '',
  )
  const changes = await stage.call(
    'GET',
    `/app-conversations/${conversation}/git/changes?path=${encodeURIComponent(project)}`,
  )
  expect(changes.json).toEqual([{ status: 'ADDED', path: 'PLAN.md' }])
  const wrong = await stage.call(
    'GET',
    `/app-conversations/${conversation}/git/changes?ref=nope&path=${encodeURIComponent(project)}`,
  )
  expect(wrong.status).toBe(400)
  expect((await stage.call('GET', `/app-conversations/${conversation}/skills`)).json).toEqual({
    skills: expect.any(Array),
  })
  expect((await stage.call('GET', `/app-conversations/${conversation}/hooks`)).json).toEqual({ hooks: [] })

  // A second conversation in the sandbox has its own directory; a child works in that of its parent.
  const second = await stage.start({
    sandbox_id: 'sb-1',
    selected_repository: `file://${bare}`,
    selected_branch: 'feature/é',
  })
  expect(second.status).toBe('READY')
  const theirs = join(
    stage.sandboxes.getSandbox('sb-1').directory,
    'project',
    String(second.app_conversation_id),
    'name',
  )
  expect(git(theirs, 'branch', '--show-current').trim()).toBe('feature/é')
  const child = await stage.start({ parent_conversation_id: second.app_conversation_id, agent_type: 'plan' })
  expect(child).toMatchObject({ status: 'READY', sandbox_id: 'sb-1', detail: null })
  const [row] = await stage.controlPlane.conversations.listChildren(
    toDashedUuid(String(second.app_conversation_id)),
  )
  expect(JSON.parse(String(row?.members))).toMatchObject({ projectDir: theirs, selected_branch: 'feature/é' })
})

test('a failed clone is an error and leaves no files', {
  timeout: slowTestTimeoutMs,
}, async () => {
  using directory = temporaryDirectory()
  const bare = makeRepository(directory.path, {})
  await using stage = await openTestServer()
  const none = await stage.start({ selected_repository: `file://${directory.path}/none.git` })
  expect(none).toMatchObject({ status: 'ERROR' })
  expect(none.detail).toContain('could not be cloned')
  expect(none.detail).toContain('none.git')
  const branchless = await stage.start({
    selected_repository: `file://${bare}`,
    selected_branch: 'nope',
    sandbox_id: 'sb-1',
  })
  expect(branchless.detail).toContain('nope')
  expect(readdirSync(join(stage.sandboxes.getSandbox('sb-1').directory, 'project'))).toEqual([])
  expect((await stage.call('GET', '/app-conversations/count')).json).toBe(0)
  // The same id with a valid request continues in the same sandbox.
  const right = await stage.start({
    conversation_id: none.app_conversation_id,
    selected_repository: `file://${bare}`,
  })
  expect(right).toMatchObject({ status: 'READY', sandbox_id: 'sb-1' })
})

test('a script that exceeds its timeout is ended with a warning', {
  timeout: slowTestTimeoutMs,
}, async () => {
  using directory = temporaryDirectory()
  const bare = makeRepository(directory.path, { '.openhands/setup.sh': 'echo begun\nsleep 600\n' })
  await using stage = await openTestServer({ limits: { setupMs: 1_000 } })
  const task = await stage.start({ selected_repository: `file://${bare}` })
  expect(task).toMatchObject({ status: 'READY' })
  expect(task.detail).toContain('took longer than 1 s: begun')
})

test('the token of a private repository is used and leaves no trace', {
  timeout: slowTestTimeoutMs,
}, async () => {
  using directory = temporaryDirectory()
  const bare = makeRepository(directory.path, { 'README.md': 'private' })
  const token = 'ghp_canary/+Token%1'
  await using server = await gitServer(join(bare, '../..'), `x-access-token:${token}`)
  await using stage = await openTestServer()
  const host = `http://127.0.0.1:${server.port}`
  stage.accounts.tokens = { github: { token: new Secret('wrong-token'), host } }
  const refused = await stage.start({ selected_repository: 'owner/name' })
  expect(refused.status).toBe('ERROR')
  expect(refused.detail).not.toContain('wrong-token')
  stage.accounts.tokens = { github: { token: new Secret(token), host } }
  const task = await stage.start({ selected_repository: 'owner/name', sandbox_id: 'sb-1' })
  expect(task).toMatchObject({ status: 'READY', detail: null })
  const place = stage.sandboxes.getSandbox('sb-1')
  const project = join(place.directory, 'project', 'name')
  expect(readFileSync(join(project, 'README.md'), 'utf8')).toBe('private')
  expect(git(project, 'remote', 'get-url', 'origin').trim()).toBe(`${host}/owner/name.git`)
  const forms = [
    token,
    encodeURIComponent(token),
    Buffer.from(token).toString('base64'),
    Buffer.from(`x-access-token:${token}`).toString('base64'),
  ]
  for (const form of forms) expect(findFilesContaining(stage.directory, form)).toEqual([])
  expect(JSON.stringify(task) + stage.logged.join()).not.toContain('canary')
  expect(readdirSync(join(place.directory, 'home')).filter((name) => name.startsWith('tmp.'))).toEqual([])
})

/** Git over HTTP for those who know the login. */
async function gitServer(root: string, login: string): Promise<AsyncDisposable & { readonly port: number }> {
  const backend = join(execFileSync('git', ['--exec-path']).toString().trim(), 'git-http-backend')
  if (!statSync(backend).isFile()) throw new Error('git has no http backend here')
  const wanted = `Basic ${Buffer.from(login).toString('base64')}`
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    if (request.headers.authorization !== wanted) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' })
      response.end(`no: ${request.headers.authorization ?? ''}`)
      return
    }
    const [path = '', query = ''] = (request.url ?? '').split('?')
    const child = spawn(backend, [], {
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: root,
        GIT_HTTP_EXPORT_ALL: '1',
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: 'safe.directory',
        GIT_CONFIG_VALUE_0: '*',
        PATH_INFO: path,
        QUERY_STRING: query,
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        HTTP_GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      },
    })
    request.pipe(child.stdin)
    const chunks: Buffer[] = []
    child.stdout.on('data', (chunk) => chunks.push(chunk))
    child.on('close', () => {
      const all = Buffer.concat(chunks)
      const end = all.indexOf('\r\n\r\n')
      const headers = all
        .subarray(0, end)
        .toString()
        .split('\r\n')
        .map((line) => line.split(': '))
      const status = headers.find(([name]) => name === 'Status')?.[1] ?? '200'
      const others = headers.filter(([name]) => name !== 'Status')
      response.writeHead(Number.parseInt(status, 10), Object.fromEntries(others))
      response.end(all.subarray(end + 4))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function toDashedUuid(hex: string): string {
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

test('scripts of a repository run only after consent to their content, once for each', {
  timeout: 3 * slowTestTimeoutMs,
}, async () => {
  using directory = temporaryDirectory()
  const bare = makeRepository(directory.path, {
    '.openhands/setup.sh': 'touch .git/setup-ran\n',
    '.openhands/pre-commit.sh': 'touch .git/hook-ran\n',
  })
  const source = join(directory.path, 'source')
  await using stage = await openTestServer({ scriptTrust: 'skip' })
  let count = 0
  /** Starts in its own sandbox, commits, and tells what ran. */
  const start = async (more: object = {}) => {
    const task = await stage.start({ selected_repository: `file://${bare}`, ...more })
    expect(task.status).toBe('READY')
    const project = join(stage.sandboxes.getSandbox(`sb-${++count}`).directory, 'project', 'name')
    const commit = () => git(project, 'commit', '--quiet', '--allow-empty', '-m', 'x')
    commit()
    const ran = () => ['setup-ran', 'hook-ran'].filter((name) => existsSync(join(project, '.git', name)))
    return { task, project, commit, ran }
  }
  const unasked = await start()
  expect(unasked.ran()).toEqual([])
  expect(unasked.task.detail).toMatch(/need consent and did not run.*\n[0-9a-f]{64} \.openhands\/setup\.sh/)
  const allowed = await start({ repository_scripts: 'allow' })
  expect(allowed.ran()).toEqual(['setup-ran', 'hook-ran'])
  const remembered = await start()
  expect(remembered.ran()).toEqual(['setup-ran', 'hook-ran'])
  // What changes afterwards is other content: a hook that is installed already does not run then.
  writeFileSync(join(remembered.project, '.openhands/pre-commit.sh'), 'touch .git/changed-ran\n')
  remembered.commit()
  expect(existsSync(join(remembered.project, '.git/changed-ran'))).toBe(false)
  writeFileSync(join(source, '.openhands/setup.sh'), 'touch .git/setup-ran # changed\n')
  git(source, 'commit', '--quiet', '-am', 'third')
  git(source, 'push', '--quiet', bare, 'main')
  expect((await start()).ran()).toEqual([])
})

test('a start may deny the scripts of its repository where no consent is needed', {
  timeout: slowTestTimeoutMs,
}, async () => {
  using directory = temporaryDirectory()
  const bare = makeRepository(directory.path, { '.openhands/setup.sh': 'touch .git/setup-ran\n' })
  await using stage = await openTestServer()
  const task = await stage.start({ selected_repository: `file://${bare}`, repository_scripts: 'deny' })
  expect([task.status, task.detail]).toEqual(['READY', expect.stringContaining('did not run')])
  const project = join(stage.sandboxes.getSandbox('sb-1').directory, 'project', 'name')
  expect(existsSync(join(project, '.git/setup-ran'))).toBe(false)
})

test('a start waits for consent to the scripts, says so, and continues with the decision of its user', {
  timeout: 3 * slowTestTimeoutMs,
}, async () => {
  using directory = temporaryDirectory()
  const bare = makeRepository(directory.path, { '.openhands/setup.sh': 'touch .git/setup-ran\n' })
  const source = join(directory.path, 'source')
  await using stage = await openTestServer({ scriptTrust: 'ask' })
  let count = 0
  /** Starts in its own sandbox, and answers when it waits. */
  const start = async () => {
    const { json } = await stage.call('POST', '/app-conversations', { selected_repository: `file://${bare}` })
    const sandbox = `sb-${++count}`
    const task = async () =>
      (await stage.call('GET', `/app-conversations/start-tasks?ids=${json.id}`)).json[0]
    const waiting = await stage.until(
      task,
      ({ status, detail }) => status === 'READY' || /^Waits/.test(detail ?? ''),
    )
    const finish = () => stage.until(task, ({ status }) => status === 'READY' || status === 'ERROR')
    const project = () => join(stage.sandboxes.getSandbox(sandbox).directory, 'project', 'name')
    return { waiting, finish, hasRun: () => existsSync(join(project(), '.git/setup-ran')) }
  }
  const pending = async (headers: Record<string, string> = {}) => {
    const { json } = await stage.call('GET', '/repository-consents', undefined, headers)
    const items: { id: string; decision: string }[] = json.items
    return items.filter(({ decision }) => decision === 'pending')
  }
  const first = await start()
  const [consent, ...others] = await pending()
  expect(others).toEqual([])
  expect(consent).toMatchObject({
    repository: `file://${bare}`,
    items: [{ kind: 'script', path: '.openhands/setup.sh', command: 'touch .git/setup-ran\n' }],
  })
  const path = `/repository-consents/${consent?.id}`
  expect(first.waiting).toMatchObject({
    status: 'RUNNING_SETUP_SCRIPT',
    detail: expect.stringContaining(`slipway trust ${consent?.id}`),
  })
  // Another user neither sees nor decides it.
  const other = { 'x-user': 'eve' }
  expect(await pending(other)).toEqual([])
  for (const [method, body] of [['PUT', { decision: 'allow' }], ['DELETE']] as const)
    expect((await stage.call(method, path, body, other)).status).toBe(404)
  expect(first.hasRun()).toBe(false)
  expect((await stage.call('PUT', path, { decision: 'allow' })).json).toMatchObject({ decision: 'allowed' })
  expect(await first.finish()).toMatchObject({ status: 'READY', detail: null })
  expect(first.hasRun()).toBe(true)
  const second = await start()
  expect([second.waiting.status, second.hasRun()]).toEqual(['READY', true])

  writeFileSync(join(source, '.openhands/setup.sh'), 'touch .git/setup-ran # changed\n')
  git(source, 'commit', '--quiet', '-am', 'third')
  git(source, 'push', '--quiet', bare, 'main')
  const denied = await start()
  const [changed] = await pending()
  expect(changed?.id).not.toBe(consent?.id)
  await stage.call('PUT', `/repository-consents/${changed?.id}`, { decision: 'deny' })
  expect(await denied.finish()).toMatchObject({
    status: 'READY',
    detail: expect.stringContaining('did not run'),
  })
  expect(denied.hasRun()).toBe(false)
})

test('a start does not wait for ever for consent', { timeout: 2 * slowTestTimeoutMs }, async () => {
  using directory = temporaryDirectory()
  const bare = makeRepository(directory.path, { '.openhands/setup.sh': 'touch .git/setup-ran\n' })
  await using stage = await openTestServer({ scriptTrust: 'ask', limits: { consentMs: 100 } })
  const task = await stage.start({ selected_repository: `file://${bare}` })
  expect([task.status, task.detail]).toEqual(['READY', expect.stringMatching(/Nobody decided.*did not run/s)])
  expect(stage.sandboxes.touched).toContain('sb-1')
})
