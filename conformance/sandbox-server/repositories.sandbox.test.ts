import { afterAll, beforeAll, expect, test } from 'vitest'
import { type GitHost, openGitHost } from '../support/git-host.ts'
import {
  type AppConversation,
  createUser,
  openSandboxServer,
  type SandboxServerFixture,
  type StartTask,
  textModel,
  type User,
} from '../support/sandbox-server/user.ts'

/** Repositories, setup scripts, hooks, and the reports of their failures. */

const token = 'ghp-a-token-of-nobody-0123456789'
let fixture: SandboxServerFixture
let user: User
let openHost: GitHost
let privateHost: GitHost
beforeAll(async () => {
  openHost = await openGitHost()
  privateHost = await openGitHost({ login: `oauth2:${token}` })
  // The Git host of the tests is on loopback.
  fixture = await openSandboxServer({ env: { SLIPWAY_SANDBOX_NETWORK: 'shared' } })
  user = await createUser(fixture.server)
  await user.setModel(textModel)
  await user.requestOrThrow('POST', '/api/v1/settings', {
    git_user_name: 'Ann Ö',
    git_user_email: 'ann@example.org',
  })
}, 60_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
  await openHost?.[Symbol.asyncDispose]()
  await privateHost?.[Symbol.asyncDispose]()
}, 120_000)

const longTimeout = { timeout: 90_000 }

test(
  'before the agent starts, a repository is cloned, its setup script runs in its root, and its hook is installed',
  longTimeout,
  async () => {
    await openHost.addRepository('team/tool', {
      'README.md': 'A tool.',
      '.openhands/setup.sh': 'pwd > set-up; git config user.name >> set-up',
      '.openhands/pre-commit.sh':
        '#!/bin/sh\nif grep -rq forbidden src 2>/dev/null; then echo NEVER >&2; exit 1; fi\n',
    })
    const repository = `${openHost.url}/team/tool.git`
    const conversation = await user.createConversation({
      selected_repository: repository,
      initial_message: { content: 'Begin.' },
    })
    expect(conversation).toMatchObject({ selected_repository: repository, selected_branch: null })
    const at = '/workspace/project/tool'
    expect(await readWorkspaceFile(conversation, `${at}/README.md`)).toBe('A tool.')
    expect(await readWorkspaceFile(conversation, 'README.md')).toBe('A tool.')
    expect(await readWorkspaceFile(conversation, `${at}/set-up`)).toBe(`${at}\nAnn Ö\n`)
    const ran = await runInSandbox(
      conversation,
      `cd ${at} && git rev-parse --abbrev-ref HEAD && git log --oneline | wc -l && mkdir src && echo forbidden > src/a && git add src && git commit -qm no; echo "exit $?"; echo fine > src/a && git add src && git commit -qm yes && git log -1 --format='%an <%ae>'`,
    )
    expect(ran.stdout).toMatch(/^slipway\/[0-9a-f]{8}\n1\nexit 1\nAnn Ö <ann@example\.org>\n$/)
    expect(ran.stderr).toContain('NEVER')
    const changes = await user.get<unknown[]>(
      `/api/v1/app-conversations/${conversation.id}/git/changes?path=${at}`,
    )
    expect(JSON.stringify(changes)).toContain('src/a')
  },
)

test('hooks of a repository run in its sandbox, unless the start denies them', longTimeout, async () => {
  const hooks = { session_start: [{ hooks: [{ command: 'echo "set up $(whoami)" > hook-ran' }] }] }
  await openHost.addRepository('team/hooks', { '.openhands/hooks.json': JSON.stringify(hooks) })
  const selected_repository = `${openHost.url}/team/hooks.git`
  for (const [repository_scripts, expected] of [
    [undefined, 'ran'],
    ['deny', 'none'],
  ]) {
    const conversation = await user.createConversation({
      selected_repository,
      initial_message: { content: 'Begin.' },
      ...(repository_scripts === undefined ? {} : { repository_scripts }),
    })
    await user.waitForMessage(conversation.id, 'Answer 0.')
    const ran = await runInSandbox(conversation, 'cd /workspace/project/hooks && ls hook-ran')
    expect(ran.stdout.trim() === 'hook-ran' ? 'ran' : 'none').toBe(expected)
    const updates = `/api/v1/conversation/${conversation.id}/events/search?kind__eq=ConversationStateUpdateEvent`
    const keys = (await user.listAll<{ key: string }>(updates, 100)).map(({ key }) => key)
    expect(keys.includes('hook_execution')).toBe(expected === 'ran')
  }
})

test('the requested branch is cloned', longTimeout, async () => {
  await openHost.addRepository('team/branches', { a: 'a' }, ['trunk', 'feature/x-1'])
  const selected_repository = `${openHost.url}/team/branches`
  const conversation = await user.createConversation({ selected_repository, selected_branch: 'feature/x-1' })
  expect(conversation.selected_branch).toBe('feature/x-1')
  expect(await readWorkspaceFile(conversation, 'BRANCH')).toBe('feature/x-1')
  const unknown = (
    await user.startConversation({ selected_repository, selected_branch: 'no-such-branch' })
  ).at(-1)
  expect(unknown).toMatchObject({ status: 'ERROR' })
  expect(unknown?.detail).toContain('no-such-branch')
})

test('a failing setup script is reported and does not stop the start', longTimeout, async () => {
  await openHost.addRepository('team/failing', {
    '.openhands/setup.sh': 'echo "no such compiler: ö" >&2; exit 3',
  })
  const last = (await user.startConversation({ selected_repository: `${openHost.url}/team/failing` })).at(-1)
  expect(last?.status).toBe('READY')
  expect(last?.detail).toMatch(/setup\.sh.*exit code 3.*no such compiler: ö/s)
})

test(
  'a failing clone is an ERROR with its reason, leaves no conversation, and can be repeated',
  longTimeout,
  async () => {
    const conversation_id = '7d3c0000-0000-4000-8000-00000000c10e'
    const request = { conversation_id, selected_repository: `${openHost.url}/team/later.git` }
    const failed = (await user.startConversation(request)).at(-1)
    expect(failed).toMatchObject({ status: 'ERROR' })
    expect(failed?.detail).toContain('team/later.git')
    expect(failed?.detail).toMatch(/not found|not exist|404|403/i)
    expect(await user.getConversation(conversation_id)).toBeUndefined()
    await openHost.addRepository('team/later', { 'README.md': 'There it is.' })
    const again = await user.createConversation(request)
    expect(again.sandbox_id).toBe(failed?.sandbox_id)
    expect(await readWorkspaceFile(again, 'README.md')).toBe('There it is.')
  },
)

test(
  'a token opens a provider’s repository, and no reply, log, clone or task contains it',
  longTimeout,
  async () => {
    await privateHost.addRepository('team/private', { 'README.md': 'Private.' })
    const request = {
      selected_repository: 'team/private',
      git_provider: 'gitlab',
      secrets: { DEPLOY: 'deploy-value-123' },
    }
    const providers = (one: string) => ({
      provider_tokens: { gitlab: { token: one, host: privateHost.url } },
    })
    const other = 'ghp-a-wrong-token-of-nobody-98765'
    await user.requestOrThrow('POST', '/api/v1/secrets/git-providers', providers(other))
    const refused = await user.startConversation(request)
    expect(refused.at(-1)?.status).toBe('ERROR')
    await user.requestOrThrow('POST', '/api/v1/secrets/git-providers', providers(token))
    const tasks = await user.startConversation(request)
    expect(tasks.at(-1)).toMatchObject({ status: 'READY', detail: null })
    expect(privateHost.requests.some((line) => line.endsWith(`oauth2:${token}`))).toBe(true)
    const conversation = await user.getConversation(String(tasks.at(-1)?.app_conversation_id))
    if (conversation === undefined) throw new Error('it is READY')
    expect(await readWorkspaceFile(conversation, 'README.md')).toBe('Private.')
    const at = '/workspace/project/private'
    const seen = await runInSandbox(
      conversation,
      `cd ${at} && git config --list --show-origin; git remote -v; cat .git/config ~/.gitconfig ~/.git-credentials; ls -a /tmp; grep -rl -e ${token.slice(0, 20)} -e ghp-a-wrong /tmp ~ /workspace 2>/dev/null | grep -v bash_events`,
    )
    const shown = [
      tasks,
      refused,
      conversation,
      seen.stdout,
      await user.listAll<StartTask>('/api/v1/app-conversations/start-tasks/search', 100),
      await user.get('/api/v1/settings'),
      await user.get('/api/v1/users/me'),
      await user.listAll('/api/v1/secrets/search', 100),
      fixture.server.output(),
    ].map((one) => JSON.stringify(one))
    for (const secret of [
      token,
      other,
      'deploy-value-123',
      Buffer.from(`oauth2:${token}`).toString('base64'),
    ])
      for (const text of shown) expect(text).not.toContain(secret)
    expect(tasks[0]?.request).toMatchObject({ secrets: { DEPLOY: '**********' } })
  },
)

test('a model’s key and secrets are redacted in the error of a failing start', longTimeout, async () => {
  await openHost.addRepository('team/loud', {
    '.openhands/setup.sh': 'echo "told: sk-loud-model-key-1 and loud-secret-2 and loud-kept-3" >&2; exit 1',
  })
  const loud = await createUser(fixture.server)
  await loud.setModel({ ...textModel, api_key: 'sk-loud-model-key-1', base_url: 'http://u:p@127.0.0.1:9' })
  await loud.requestOrThrow('POST', '/api/v1/secrets', { name: 'KEPT', value: 'loud-kept-3' })
  const tasks = await loud.startConversation({
    selected_repository: `${openHost.url}/team/loud.git`,
    secrets: { GIVEN: { kind: 'StaticSecret', value: 'loud-secret-2' } },
  })
  const text = JSON.stringify(tasks)
  expect(tasks.at(-1)?.detail).toContain('told: ')
  for (const secret of ['sk-loud-model-key-1', 'loud-secret-2', 'loud-kept-3'])
    expect([secret, text.includes(secret), fixture.server.output().includes(secret)]).toEqual([
      secret,
      false,
      false,
    ])
})

async function readWorkspaceFile({ id }: AppConversation, path: string): Promise<string> {
  return await user.get(`/api/v1/app-conversations/${id}/file?file_path=${encodeURIComponent(path)}`)
}

async function runInSandbox(
  { sandbox_id }: AppConversation,
  command: string,
): Promise<{ stdout: string; stderr: string }> {
  const sandbox = await user.getSandbox(sandbox_id)
  const url = sandbox?.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')?.url
  const response = await fetch(`${url}/api/bash/execute_bash_command`, {
    method: 'POST',
    headers: { 'x-session-api-key': String(sandbox?.session_api_key), 'content-type': 'application/json' },
    body: JSON.stringify({ command }),
  })
  const { stdout, stderr } = (await response.json()) as { stdout: string | null; stderr: string | null }
  return { stdout: stdout ?? '', stderr: stderr ?? '' }
}
