import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findProcesses } from '../support/sandbox-server/process-resources.ts'
import type { SandboxInfo, SandboxServer } from '../support/sandbox-server/server.ts'
import {
  type AppConversation,
  createUser,
  type ListPage,
  openSandboxServer,
  type SandboxServerFixture,
  type StartTask,
  textModel,
  type User,
  waitFor,
} from '../support/sandbox-server/user.ts'

/** Conversations in sandboxes, from outside: the promises of their routes. */

const base = '/api/v1/app-conversations'
const statuses = [
  'WORKING',
  'WAITING_FOR_SANDBOX',
  'PREPARING_REPOSITORY',
  'RUNNING_SETUP_SCRIPT',
  'SETTING_UP_GIT_HOOKS',
  'SETTING_UP_SKILLS',
  'STARTING_CONVERSATION',
  'READY',
]

let fixture: SandboxServerFixture
let server: SandboxServer
let ann: User
/** A conversation of Ann's, for tests that do not change it. */
let sharedSandbox: SandboxInfo
beforeAll(async () => {
  fixture = await openSandboxServer()
  server = fixture.server
  ann = await createUser(server)
  await ann.setModel(textModel)
  sharedSandbox = await ann.startRunningSandbox()
}, 90_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 120_000)

describe('a start', () => {
  test('is streamed as one JSON array with every status in order, each stored before it is sent', async () => {
    const conversation_id = randomUUID()
    const body = JSON.stringify({ conversation_id, initial_message: { content: 'Begin.' } })
    const response = await server.fetch(`${base}/stream-start`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ann.key}`, 'content-type': 'application/json' },
      body,
    })
    expect(response.headers.get('content-type')).toBe('application/json')
    const decoder = new TextDecoder()
    let text = ''
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true })
      const reported = [...text.matchAll(/"id":"(\w{32})"[^\n]*?"status":"(\w+)"/g)].at(-1)
      const [stored] = await ann.get<StartTask[]>(`${base}/start-tasks?ids=${reported?.[1]}`)
      expect(statuses.indexOf(String(stored?.status))).toBeGreaterThanOrEqual(
        statuses.indexOf(String(reported?.[2])),
      )
    }
    const tasks: StartTask[] = JSON.parse(text)
    expect(tasks.map(({ status }) => status)).toEqual(statuses)
    expect(new Set(tasks.map(({ id }) => id)).size).toBe(1)
    const hex = conversation_id.replaceAll('-', '')
    for (const { status, app_conversation_id, sandbox_id, detail } of tasks) {
      expect(app_conversation_id).toBe(status === 'READY' ? hex : null)
      expect(sandbox_id === null).toBe(status === 'WORKING')
      expect(detail).toBeNull()
    }
    const last = tasks.at(-1)
    expect(last?.agent_server_url).toMatch(/^http/)
    for (const spelling of [hex, conversation_id, conversation_id.toUpperCase()])
      expect((await ann.getConversation(spelling))?.id).toBe(hex)
    const search = `${base}/start-tasks/search?conversation_id__eq=${conversation_id}`
    expect((await ann.get<ListPage<StartTask>>(search)).items).toEqual([last])
    await ann.waitForMessage(hex, 'Begin.')
    await ann.requestOrThrow('DELETE', `${base}/${hex}`)
    // A conversation that was alone in its sandbox deletes the sandbox too.
    await server.waitUntilGone(String(last?.sandbox_id))
    expect((await ann.get<ListPage<StartTask>>(search)).items).toEqual([])
  }, 90_000)

  test('returns WORKING to a poller at once, and continues when the streaming client disconnects', async () => {
    const task = await ann.requestOrThrow<StartTask>('POST', base, { sandbox_id: sharedSandbox.id })
    expect(task).toMatchObject({ status: 'WORKING', app_conversation_id: null, sandbox_id: null })
    const dashed = task.id.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
    const unknown = '0'.repeat(32)
    const done = await waitFor('the start is READY', async () => {
      const found = await ann.get<(StartTask | null)[]>(
        `${base}/start-tasks?ids=${unknown}&ids=${dashed}&ids=${task.id}`,
      )
      expect(found[0]).toBeNull()
      expect(found[2]).toEqual(found[1])
      return found[1]?.status === 'READY' ? found[1] : undefined
    })
    const leaving = new AbortController()
    const conversation_id = randomUUID()
    const response = await server.fetch(`${base}/stream-start`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ann.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ conversation_id, sandbox_id: sharedSandbox.id }),
      signal: leaving.signal,
    })
    await response.body?.getReader().read()
    leaving.abort()
    const left = await waitFor('it is there', async () => {
      const [one] = (await ann.get<ListPage<StartTask>>(`${base}/start-tasks/search?limit=1`)).items
      return one?.status === 'READY' ? one : undefined
    })
    expect(left.app_conversation_id).toBe(conversation_id.replaceAll('-', ''))
    for (const { app_conversation_id } of [done, left])
      await ann.requestOrThrow('DELETE', `${base}/${app_conversation_id}`)
    expect((await ann.getSandbox(sharedSandbox.id))?.status ?? 'gone').toMatch(/RUNNING|gone/)
    sharedSandbox = await ann.startRunningSandbox()
  }, 90_000)

  test('with one id from two clients is one start, and with a known id creates no second conversation', async () => {
    const request = { conversation_id: randomUUID(), sandbox_id: sharedSandbox.id }
    const tasks = await Promise.all([1, 2, 3].map(() => ann.requestOrThrow<StartTask>('POST', base, request)))
    expect(new Set(tasks.map(({ id }) => id)).size).toBe(1)
    const last = (await ann.startConversation(request)).at(-1)
    expect(last?.status).toBe('READY')
    const { items } = await ann.get<ListPage<AppConversation>>(
      `${base}/search?sandbox_id__eq=${sharedSandbox.id}`,
    )
    expect(items.map(({ id }) => id)).toEqual([last?.app_conversation_id])
  }, 60_000)

  test.each([
    [{ sandbox_id: 'x', sandbox_spec_id: 'process' }, 'sandbox_spec_id'],
    [{ selected_repository: 'a/b; rm -rf /' }, 'selected_repository'],
    [{ selected_repository: 'https://user:password@127.0.0.1/a.git' }, 'selected_repository'],
    [{ selected_branch: '--upload-pack=x' }, 'selected_branch'],
    [{ secrets: { LLM_API_KEY: 'x' } }, 'secrets'],
    [{ parent_conversation_id: randomUUID() }, 'parent_conversation_id'],
    [{ llm_profile: 'nobody' }, 'llm_profile'],
    [{ initial_message: { content: 'x' }, suggested_task: {} }, 'suggested_task'],
    [{ conversation_id: 'x' }, 'conversation_id'],
    [{ title: '' }, 'title'],
    [{ pr_number: 'x' }, 'pr_number'],
  ])('is refused with its location for %j', async (request, member) => {
    const count = await ann.get(`${base}/start-tasks/count`)
    for (const path of [base, `${base}/stream-start`]) {
      const { status, body } = await ann.requestJson<{ detail: { loc: string[] }[] }>('POST', path, request)
      expect(status).toBe(422)
      expect(body.detail[0]?.loc.slice(0, 2)).toEqual(['body', member])
      expect(JSON.stringify(body)).not.toContain('password@')
    }
    expect(await ann.get(`${base}/start-tasks/count`)).toBe(count)
  })

  test('in an unknown sandbox is refused at once, with the place', async () => {
    const { status, body } = await ann.requestJson('POST', base, { sandbox_id: 'sb-of-nobody' })
    expect([status, body]).toMatchObject([422, { detail: [{ loc: ['body', 'sandbox_id'] }] }])
    const spec = await ann.requestJson('POST', base, { sandbox_spec_id: 'none' })
    expect([spec.status, spec.body]).toMatchObject([422, { detail: [{ loc: ['body', 'sandbox_spec_id'] }] }])
  })
})

describe('a sandbox with several conversations', () => {
  test('has a directory for each and is deleted with the last one', async () => {
    const first = await ann.createConversation({ title: 'First', initial_message: { content: 'One.' } })
    const { sandbox_id } = first
    const [second, third] = await Promise.all(
      ['Second', 'Third'].map((title) => ann.createConversation({ title, sandbox_id })),
    )
    const ids = [first, second, third].map((one) => String(one?.id))
    const dirs = await Promise.all(ids.map((id) => getAgentConversation<Info>(id)))
    expect(new Set(dirs.map(({ body }) => body.workspace.working_dir)).size).toBe(3)
    const list = await ann.get<(AppConversation | null)[]>(
      `${base}?ids=${ids[2]}&ids=${'0'.repeat(32)}&ids=${ids[0]}`,
    )
    expect(list.map((one) => one?.title ?? null)).toEqual(['Third', null, 'First'])
    for (const [n, id] of ids.entries()) {
      await ann.requestOrThrow('DELETE', `${base}/${id}`)
      expect(await ann.getConversation(id)).toBeUndefined()
      const left = await ann.getSandbox(sandbox_id)
      if (n === 2) expect(left).toBeUndefined()
      else expect(left?.status).toBe('RUNNING')
      if (n < 2) expect((await fetchInSandbox(`/api/conversations/${id}`, left)).status).toBe(404)
      expect((await ann.requestJson('DELETE', `${base}/${id}`)).status).toBe(404)
    }
    await server.waitUntilGone(sandbox_id)
  }, 90_000)

  test('is shared when the settings enable it', async () => {
    const user = await createUser(server)
    await user.setModel(textModel)
    await user.requestOrThrow('POST', '/api/v1/settings', { sandbox_grouping_strategy: 'ADD_TO_ANY' })
    const first = await user.createConversation({})
    const second = await user.createConversation({})
    expect(second.sandbox_id).toBe(first.sandbox_id)
    const child = await user.createConversation({ parent_conversation_id: first.id })
    expect(child).toMatchObject({ sandbox_id: first.sandbox_id, parent_conversation_id: first.id })
    const titles = async (query: string) =>
      (await user.listAll<AppConversation>(`${base}/search?${query}`, 1)).map(({ id }) => id)
    expect(await titles('')).toEqual([second.id, first.id])
    expect(await titles('include_sub_conversations=true')).toEqual([child.id, second.id, first.id])
    expect((await user.getConversation(first.id))?.sub_conversation_ids).toEqual([child.id])
    await user.requestOrThrow('DELETE', `${base}/${first.id}`)
    expect(await titles('include_sub_conversations=true')).toEqual([second.id])
    expect((await user.getSandbox(first.sandbox_id))?.status).toBe('RUNNING')
  }, 90_000)
})

describe('a message', () => {
  test('is refused while the sandbox is paused and accepted after a resume; the history is readable all the time', async () => {
    const { id, sandbox_id } = await ann.createConversation({ initial_message: { content: 'Begin.' } })
    await ann.waitForMessage(id, 'Answer 0.')
    await ann.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/pause`)
    const refused = await ann.sendMessage(id, 'Too early.')
    expect(refused.status).toBe(409)
    expect(refused.body.detail).toContain(`slipway sandbox resume ${sandbox_id}`)
    const paused = await ann.getConversation(id)
    expect(paused).toMatchObject({
      sandbox_status: 'PAUSED',
      execution_status: null,
      session_api_key: null,
      conversation_url: null,
    })
    for (const path of ['skills', 'hooks'])
      expect(await ann.get(`${base}/${id}/${path}`)).toEqual({ [path]: [] })
    expect(await ann.get(`${base}/${id}/file`)).toBe('')
    for (const path of ['files?path=.', 'git/changes?path=.', 'git/diff?path=a'])
      expect((await ann.requestJson('GET', `${base}/${id}/${path}`)).status).toBe(409)
    const events = await ann.listAll<{ id: string }>(`/api/v1/conversation/${id}/events/search`, 1)
    expect(events.length).toBeGreaterThan(3)
    expect(await ann.get(`/api/v1/conversation/${id}/events/count`)).toBe(events.length)
    const [a, b] = events
    const path = `/api/v1/conversation/${id}/events?id=${b?.id}&id=nothing&id=${a?.id}`
    expect(await ann.get(path)).toEqual([b, null, a])
    await ann.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/resume`)
    await ann.waitForSandbox(sandbox_id, 'RUNNING')
    expect(await ann.sendMessage(id, 'Now.')).toMatchObject({
      status: 200,
      body: { success: true, sandbox_status: 'RUNNING' },
    })
    await ann.waitForMessage(id, 'Answer 1.')
    expect(await ann.get(`/api/v1/conversation/${id}/events/count?body=Too+early`)).toBe(0)
    await goneTests(id, sandbox_id)
  }, 90_000)

  /** A conversation outlives its sandbox, and can start in another one. */
  async function goneTests(id: string, sandbox_id: string): Promise<void> {
    const before = await ann.get<number>(`/api/v1/conversation/${id}/events/count`)
    await ann.requestOrThrow('DELETE', `/api/v1/sandboxes/${sandbox_id}`)
    const refused = await ann.sendMessage(id, 'Too late.')
    expect(refused.status).toBe(410)
    expect(await ann.getConversation(id)).toMatchObject({ sandbox_status: 'MISSING', execution_status: null })
    expect(await ann.get(`/api/v1/conversation/${id}/events/count`)).toBeGreaterThanOrEqual(before)
    const zip = await server.fetch(`${base}/${id}/download`, {
      headers: { authorization: `Bearer ${ann.key}` },
    })
    expect(zip.headers.get('content-disposition')).toContain(`conversation_${id}.zip`)
    expect(Buffer.from(await zip.arrayBuffer()).toString('latin1', 0, 2)).toBe('PK')
    const again = await ann.createConversation({
      conversation_id: id,
      initial_message: { content: 'Once more.' },
    })
    expect(again).toMatchObject({ id, sandbox_status: 'RUNNING' })
    expect(again.sandbox_id).not.toBe(sandbox_id)
    await ann.waitForMessage(id, 'Once more.')
    expect(await ann.get(`/api/v1/conversation/${id}/events/count`)).toBeGreaterThan(before)
  }

  test('to a crashed sandbox is 503, to an agent server that refuses 502', async () => {
    const { id, sandbox_id } = await ann.createConversation()
    const removed = await ann.createConversation({ sandbox_id })
    const sandbox = await ann.getSandbox(sandbox_id)
    expect((await fetchInSandbox(`/api/conversations/${removed.id}`, sandbox, 'DELETE')).status).toBe(200)
    expect((await ann.sendMessage(removed.id, 'Is anybody there?')).status).toBe(502)
    for (const { pid } of await findProcesses(join(server.data, 'sandboxes', sandbox_id)))
      try {
        process.kill(pid, 'SIGKILL')
      } catch {}
    const dead = await ann.waitForSandbox(sandbox_id, 'ERROR')
    expect(dead.status_detail).toMatch(/./)
    expect((await ann.sendMessage(id, 'Is anybody there?')).status).toBe(503)
    expect(await ann.getConversation(id)).toMatchObject({ sandbox_status: 'ERROR', session_api_key: null })
    await ann.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/resume`)
    await ann.waitForSandbox(sandbox_id, 'RUNNING')
    expect((await ann.sendMessage(id, 'And now?')).status).toBe(200)
    await ann.waitForMessage(id, 'And now?')
  }, 90_000)

  test('can be queued for a conversation that is starting: at most ten, delivered in order', async () => {
    const task = await ann.requestOrThrow<StartTask>('POST', base, { initial_message: { content: 'Begin.' } })
    const leave = (target: string, text: string) =>
      ann.requestJson<{ position: number }>('POST', `/api/v1/conversations/${target}/pending-messages`, {
        content: [{ type: 'text', text }],
      })
    const answers = []
    for (let n = 0; n < 12; n++) answers.push(await leave(`task-${task.id}`, `Later ${n}.`))
    const accepted = answers.filter(({ status }) => status === 201)
    expect(accepted[0]?.body).toMatchObject({ queued: true, position: 1 })
    for (const { status } of answers) expect([201, 429]).toContain(status)
    expect(answers[10]?.status).toBe(429)
    const ready = await waitFor('it is READY', async () => {
      const [found] = await ann.get<StartTask[]>(`${base}/start-tasks?ids=${task.id}`)
      return found?.status === 'READY' ? found : undefined
    })
    const id = String(ready.app_conversation_id)
    await ann.waitForMessage(id, `Later ${accepted.length - 1}.`)
    expect((await userTexts(id)).filter((text) => text.startsWith('Later'))).toEqual(
      accepted.map((_, n) => `Later ${n}.`),
    )
    // Messages that are queued while it is paused are delivered after the resume.
    await ann.requestOrThrow('POST', `/api/v1/sandboxes/${ready.sandbox_id}/pause`)
    expect((await leave(id, 'While it stood still.')).body).toMatchObject({ position: 1 })
    await ann.requestOrThrow('POST', `/api/v1/sandboxes/${ready.sandbox_id}/resume`)
    await ann.waitForMessage(id, 'While it stood still.')
    expect((await userTexts(id)).filter((text) => text === 'While it stood still.')).toHaveLength(1)
    for (const target of ['task-', 'task-x', 'x', randomUUID(), `task-${randomUUID()}`])
      expect((await leave(target, 'x')).status).toBe(404)
  }, 90_000)

  test.each([
    [{}],
    [{ content: [] }],
    [{ content: '' }],
    [{ content: 1 }],
    [{ role: 'system', content: 'x' }],
  ])('like %j is refused with its location', async (body) => {
    const id = randomUUID()
    for (const path of [`${base}/${id}/send-message`, `/api/v1/conversations/${id}/pending-messages`]) {
      const answer = await ann.requestJson('POST', path, body)
      // An empty text is a valid message; the error is that the conversation does not exist.
      expect([path, answer.status]).toEqual([path, 'content' in body && body.content === '' ? 404 : 422])
    }
  })
})

describe('a conversation', () => {
  test('is changed member by member, null clears, and invalid values are refused with their location', async () => {
    const { id } = await ann.createConversation({ sandbox_id: sharedSandbox.id })
    const path = `${base}/${id}`
    const patch = { title: 'Ünïcode 😀', public: true, selected_repository: 'a/b', selected_branch: 'main' }
    expect(await ann.requestOrThrow('PATCH', path, patch)).toMatchObject(patch)
    const cleared = { selected_repository: null, selected_branch: null, git_provider: null }
    expect(await ann.requestOrThrow('PATCH', path, cleared)).toMatchObject({ ...cleared, title: patch.title })
    expect(await ann.requestOrThrow('PATCH', path, { title: null })).not.toMatchObject({ title: patch.title })
    expect(await ann.requestOrThrow('PATCH', path, {})).toMatchObject({ public: true })
    for (const wrong of [
      { title: '' },
      { public: 'yes' },
      { selected_repository: 'a b' },
      { selected_repository: '../x' },
      { selected_repository: null },
      { selected_branch: 'a..b' },
      { git_provider: 'cvs' },
    ])
      expect([wrong, (await ann.requestJson('PATCH', path, wrong)).status]).toEqual([wrong, 422])
    expect((await ann.requestJson('PATCH', `${base}/${randomUUID()}`, {})).status).toBe(404)
  }, 60_000)

  test('shows its files, changes, skills and hooks, and nothing outside its workspace', async () => {
    const { id } = await ann.createConversation({ sandbox_id: sharedSandbox.id })
    const { workspace } = (await getAgentConversation<Info>(id)).body
    const at = workspace.working_dir
    await runInSharedSandbox(
      `mkdir -p ${at}/.openhands/microagents ${at}/node_modules && cd ${at} && echo plan > PLAN.md && echo x > node_modules/x && git add -A 2>/dev/null; echo '{"PreToolUse":[{"matcher":"*","hooks":[{"command":"true"}]}]}' > .openhands/hooks.json && printf -- '---\\nname: known\\ntriggers: [abc]\\n---\\nWhat is known.' > .openhands/microagents/known.md`,
    )
    for (const part of ['skills', 'hooks'])
      expect(await ann.requestJson('GET', `${base}/${randomUUID()}/${part}`)).toMatchObject({
        status: 404,
        body: { error: 'unknown_app_conversation', detail: 'unknown_app_conversation' },
      })
    expect(await ann.get(`${base}/${id}/file`)).toBe('plan\n')
    expect(await ann.get(`${base}/${id}/file?file_path=${at}/PLAN.md`)).toBe('plan\n')
    expect(await ann.get(`${base}/${id}/file?file_path=/nothing/there`)).toBe('')
    for (const path of ['.', at, '/workspace/project']) {
      const files = await ann.get<string[]>(`${base}/${id}/files?path=${path}`)
      expect([path, files.filter((name) => !name.startsWith('.git/')).sort()]).toEqual([
        path,
        ['.openhands/hooks.json', '.openhands/microagents/known.md', 'PLAN.md'],
      ])
    }
    expect((await ann.requestJson('GET', `${base}/${id}/files?path=/nothing`)).status).toBe(404)
    expect(
      (await ann.requestJson('GET', `${base}/${id}/files?path=${encodeURIComponent("'; exit 7; '")}`)).status,
    ).toBe(404)
    for (const path of [at, '/workspace/project']) {
      const changes = await ann.get<{ path: string }[]>(`${base}/${id}/git/changes?path=${path}`)
      expect(changes.map((change) => change.path)).toContain('PLAN.md')
      const diff = await ann.get<{ modified: string }>(`${base}/${id}/git/diff?path=${path}/PLAN.md`)
      expect(diff.modified).toContain('plan')
    }
    const { skills } = await ann.get<{ skills: { name: string }[] }>(`${base}/${id}/skills`)
    expect(skills.map(({ name }) => name)).toContain('known')
    const { hooks } = await ann.get<{ hooks: { event_type: string }[] }>(`${base}/${id}/hooks`)
    expect(hooks).toHaveLength(1)
  }, 60_000)

  test('continues with the model of a profile', async () => {
    const { id } = await ann.createConversation({
      sandbox_id: sharedSandbox.id,
      initial_message: { content: 'Begin.' },
    })
    const llm = {
      model: 'scripted/other',
      script: [1, 2, 3].map(() => ({ text: 'The other one speaks.' })),
      api_key: 'sk-of-profile',
    }
    await ann.requestOrThrow('POST', '/api/v1/settings/profiles/other', { llm })
    expect(
      await ann.requestOrThrow('POST', `${base}/${id}/switch_profile`, { profile_name: 'other' }),
    ).toEqual({
      success: true,
    })
    expect(await ann.sendMessage(id, 'Who speaks?')).toMatchObject({ status: 200 })
    await ann.waitForMessage(id, 'The other one speaks.')
    // A report of the agent server from before the change may be ingested after it; the next report corrects
    // it.
    await expect
      .poll(() => ann.getConversation(id), { timeout: 30_000 })
      .toMatchObject({ llm_model: 'scripted/other' })
    const unknown = await ann.requestJson('POST', `${base}/${id}/switch_profile`, { profile_name: 'nobody' })
    expect(unknown.status).toBe(404)
    const acp = await ann.requestJson('POST', `${base}/${id}/switch_acp_model`, { model: 'large' })
    expect(acp).toMatchObject({ status: 400, body: { detail: expect.stringContaining('ACP') } })
    const log = await server.fetch(`/api/v1/conversation/${id}/events/export`, {
      headers: { authorization: `Bearer ${ann.key}` },
    })
    expect(await log.text()).not.toContain('sk-of-profile')
  }, 60_000)

  test('that is deleted during its start never reappears', async () => {
    for (const waitMs of [0, 20, 100, 300]) {
      const conversation_id = randomUUID()
      const request = {
        conversation_id,
        sandbox_id: sharedSandbox.id,
        initial_message: { content: 'Begin.' },
      }
      const other = await ann.createConversation({ sandbox_id: sharedSandbox.id })
      const task = await ann.requestOrThrow<StartTask>('POST', base, request)
      await sleep(waitMs)
      const { status } = await ann.requestJson('DELETE', `${base}/${conversation_id}`)
      expect([200, 404]).toContain(status)
      const end = await waitFor('the start is over', async () => {
        const [found] = await ann.get<(StartTask | null)[]>(`${base}/start-tasks?ids=${task.id}`)
        if (found === null) return 'removed'
        return found?.status === 'READY' || found?.status === 'ERROR' ? found.status : undefined
      })
      if (status === 200) {
        expect(end).not.toBe('READY')
        expect(await ann.getConversation(conversation_id)).toBeUndefined()
        expect((await ann.requestJson('GET', `${base}/${conversation_id}/download`)).status).toBe(404)
      }
      expect((await ann.getConversation(other.id))?.sandbox_status).toBe('RUNNING')
    }
  }, 90_000)
})

test('lists of hundreds, many with one timestamp, are walked completely in every order and counted correctly', async () => {
  const user = await createUser(server)
  const { id: sandbox, session_api_key } = await user.startRunningSandbox()
  const total = 205
  const ids = Array.from({ length: total }, () => randomUUID())
  const headers = { 'x-session-api-key': String(session_api_key), 'content-type': 'application/json' }
  await Promise.all(
    ids.map(async (id, n) => {
      // Some have the same time, some the same title, and some titles are hard to sort.
      const created_at = `2026-01-0${1 + (n % 3)}T00:00:00Z`
      const title = n % 5 === 0 ? 'Same' : n % 7 === 0 ? `ß${n}` : `Title ${n}`
      const body = JSON.stringify({ id, title, created_at, updated_at: created_at, execution_status: 'idle' })
      const url = `${server.url}/api/v1/webhooks/conversations`
      const response = await fetch(url, { method: 'POST', headers, body })
      expect(response.status).toBe(200)
    }),
  )
  const hex = new Set(ids.map((id) => id.replaceAll('-', '')))
  for (const order of [
    'CREATED_AT',
    'CREATED_AT_DESC',
    'UPDATED_AT',
    'UPDATED_AT_DESC',
    'TITLE',
    'TITLE_DESC',
  ]) {
    for (const [limit, path] of [
      [order === 'TITLE' ? 1 : 41, `${base}/search`],
      [7, base],
      [100, `${base}/search`],
    ] as const) {
      const all = await user.listAll<AppConversation>(
        `${path}?sort_order=${order}&sandbox_id__eq=${sandbox}`,
        limit,
      )
      expect(new Set(all.map(({ id }) => id))).toEqual(hex)
      expect(all).toHaveLength(total)
      const keys = all.map((one) => String(one[order.replace('_DESC', '').toLowerCase()]))
      if (!order.startsWith('TITLE')) {
        const sorted = keys.toSorted()
        expect(keys).toEqual(order.endsWith('DESC') ? sorted.reverse() : sorted)
      }
    }
  }
  expect(await user.get(`${base}/count`)).toBe(total)
  expect(await user.get(`${base}/count?title__contains=SAME`)).toBe(41)
  const some = await user.listAll<AppConversation>(`${base}/search?title__contains=tle+1`, 10)
  expect(some.every(({ title }) => title?.includes('tle 1'))).toBe(true)
  expect(some).toHaveLength(await user.get<number>(`${base}/count?title__contains=tle+1`))
  await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${sandbox}`)
}, 120_000)

interface Info {
  readonly workspace: { readonly working_dir: string }
}

/** A conversation as its agent server reports it. */
async function getAgentConversation<T>(id: string): Promise<{ status: number; body: T }> {
  const { sandbox_id } = (await ann.getConversation(id)) ?? { sandbox_id: '' }
  const response = await fetchInSandbox(`/api/conversations/${id}`, await ann.getSandbox(sandbox_id))
  return { status: response.status, body: (await response.json()) as T }
}

async function fetchInSandbox(
  path: string,
  sandbox: SandboxInfo | undefined,
  method = 'GET',
): Promise<Response> {
  const url = sandbox?.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')?.url
  return await fetch(`${url}${path}`, {
    method,
    headers: { 'x-session-api-key': String(sandbox?.session_api_key) },
  })
}

/** Runs a command in the shared sandbox. */
async function runInSharedSandbox(command: string): Promise<void> {
  const url = sharedSandbox.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')?.url
  const response = await fetch(`${url}/api/bash/execute_bash_command`, {
    method: 'POST',
    headers: {
      'x-session-api-key': String(sharedSandbox.session_api_key),
      'content-type': 'application/json',
    },
    body: JSON.stringify({ command }),
  })
  const ran = (await response.json()) as { exit_code: number; stderr: string }
  expect(ran).toMatchObject({ exit_code: 0 })
}

/** The user's messages in a conversation, in order. */
async function userTexts(id: string): Promise<string[]> {
  const events = await ann.listAll<{ llm_message: { content: { text: string }[] } }>(
    `/api/v1/conversation/${id}/events/search?kind__eq=MessageEvent&source__eq=user`,
    3,
  )
  return events.map(({ llm_message }) => String(llm_message.content[0]?.text))
}
