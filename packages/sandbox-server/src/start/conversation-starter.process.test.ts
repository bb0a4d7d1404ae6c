import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  type Llm,
  llm,
  must,
  Problem,
  sandboxSpec,
  storageFullProblem,
  storageUnavailableProblem,
  userSettings,
} from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import type { StartTaskRow } from '@slipway/storage/control-plane'
import { expect, test } from 'vitest'
import { readConfig } from '../config/config.ts'
import { askCaughtUp } from '../network/caught-up.ts'
import { type ResolvedSpec, SandboxSpecs } from '../sandboxes/state/specs.ts'
import { openTestServer } from '../testing/test-server.ts'
import { createModelAddressCheck } from './model-address.ts'

const slowTestTimeoutMs = 120_000

test('a start passes every status in order, its conversation runs, and its events are ingested byte for byte', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer()
  const response = await stage.open('POST', '/app-conversations/stream-start', {
    initial_message: { content: 'Hi.' },
    title: 'A title',
    tags: { team: 'x' },
  })
  const text = await response.text()
  expect(text.startsWith('[\n')).toBe(true)
  const tasks = JSON.parse(text)
  expect(tasks.map(({ status }: { status: string }) => status)).toEqual([
    'WORKING',
    'WAITING_FOR_SANDBOX',
    'PREPARING_REPOSITORY',
    'RUNNING_SETUP_SCRIPT',
    'SETTING_UP_GIT_HOOKS',
    'SETTING_UP_SKILLS',
    'STARTING_CONVERSATION',
    'READY',
  ])
  const last = tasks.at(-1)
  expect(last).toMatchObject({ detail: null, sandbox_id: 'sb-1', created_by_user_id: 'ada' })
  expect(tasks[0]).toMatchObject({ sandbox_id: null, app_conversation_id: null, agent_server_url: null })
  expect(last.app_conversation_id).toMatch(/^[0-9a-f]{32}$/)
  const id = last.app_conversation_id
  const info = await stage.until(
    () => stage.conversation(id),
    ({ execution_status }) => execution_status === 'finished' || execution_status === 'idle',
  )
  expect(info).toMatchObject({
    title: 'A title',
    tags: { team: 'x' },
    sandbox_status: 'RUNNING',
    llm_model: 'scripted/test',
  })
  const agent = stage.sandboxes.getSandbox('sb-1')
  expect(info.conversation_url).toBe(`${agent.url}/api/conversations/${id}`)
  expect(info.session_api_key).toBe(agent.key)

  const theirs = async () => {
    const answer = await fetch(`${info.conversation_url}/export`, {
      headers: { 'x-session-api-key': agent.key },
    })
    return await answer.text()
  }
  const ours = async () => await (await stage.open('GET', `/conversation/${id}/events/export`)).text()
  const exported = await stage.until(
    async () => [await theirs(), await ours()],
    ([a, b]) => a === b && String(a).includes('Hello.'),
  )
  expect(exported[1]).toBe(exported[0])
  const { client } = must(stage.sandboxes.getConnection(agent.row), 'a connection')
  const isComplete = (sandbox: string) =>
    askCaughtUp(client, (log) => stage.ingest.hasAll(sandbox, log), AbortSignal.timeout(10_000))
  expect(await isComplete('sb-1')).toBe(true)
  expect(await isComplete('sb-2')).toBe(false)
  const { json: page } = await stage.call(
    'GET',
    `/conversation/${id}/events/search?kind__eq=MessageEvent&source__eq=agent`,
  )
  expect(page.items.map(({ source }: { source: string }) => source)).toEqual(['agent'])
  expect((await stage.call('GET', `/conversations/${id}/events/count?kind=MessageEvent`)).json).toBe(2)
  // It is missing for other users.
  const other = { 'x-user': 'bob' }
  expect((await stage.call('GET', `/conversation/${id}/events/search`, undefined, other)).json).toEqual({
    items: [],
    next_page_id: null,
  })
  expect((await stage.call('GET', `/app-conversations?ids=${id}`, undefined, other)).json).toEqual([null])
  expect(
    (await stage.call('GET', `/app-conversations/start-tasks?ids=${last.id}`, undefined, other)).json,
  ).toEqual([null])
  expect((await stage.call('DELETE', `/app-conversations/${id}`, undefined, other)).status).toBe(404)
  expect((await stage.call('POST', '/app-conversations', { conversation_id: id }, other)).status).toBe(409)

  // The same id again is the same conversation, and takes no slot.
  const again = await stage.start({ conversation_id: id })
  expect(again).toMatchObject({ status: 'READY', app_conversation_id: id, sandbox_id: 'sb-1' })
  expect(await stage.quota.used).toBe(1)

  // Paused: history is there, messages are refused with what to do; a start resumes it.
  await stage.sandboxes.pause(agent.row)
  expect(await stage.conversation(id)).toMatchObject({
    sandbox_status: 'PAUSED',
    execution_status: null,
    conversation_url: null,
    session_api_key: null,
  })
  const refused = await stage.call('POST', `/app-conversations/${id}/send-message`, { content: 'More.' })
  expect(refused.status).toBe(409)
  expect(refused.json.detail).toContain('slipway sandbox resume sb-1')
  expect(await ours()).toBe(exported[0])
  expect((await stage.start({ conversation_id: id })).status).toBe('READY')
  const sent = await stage.call('POST', `/app-conversations/${id}/send-message`, { content: 'More.' })
  expect(sent).toMatchObject({ status: 200, json: { success: true, sandbox_status: 'RUNNING' } })

  // Deleted, its sandbox goes too, and nothing of it is left.
  expect((await stage.call('DELETE', `/app-conversations/${id}`)).status).toBe(200)
  expect(stage.sandboxes.entries.size).toBe(0)
  expect(await stage.conversation(id)).toBeNull()
  expect(await stage.storage.conversations.count()).toBe(0)
  expect((await stage.call('GET', '/app-conversations/start-tasks/count')).json).toBe(0)
  expect((await stage.call('DELETE', `/app-conversations/${id}`)).status).toBe(404)
})

test('a failed start has a reason, releases its slot once, and can be repeated in the same sandbox', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer({ waitMs: 300 })
  stage.quota.limit = 1
  stage.sandboxes.next = { status: 'STARTING', detail: 'slow' }
  const late = await stage.start()
  expect(late).toMatchObject({ status: 'ERROR', sandbox_id: 'sb-1' })
  expect(late.detail).toContain('was not ready within 0.3 s')
  expect(await stage.quota.used).toBe(0)
  const place = stage.sandboxes.getSandbox('sb-1')
  stage.sandboxes.next = {}
  await stage.sandboxes.resume(place.row)
  await stage.sandboxes.waitSettled('sb-1', AbortSignal.timeout(60_000))
  const again = await stage.start({ conversation_id: late.app_conversation_id })
  expect(again).toMatchObject({ status: 'READY', sandbox_id: 'sb-1' })
  expect(await stage.quota.used).toBe(1)
  const none = await stage.call('POST', '/app-conversations', {})
  expect(none).toMatchObject({ status: 429, json: { detail: { limit: 1 } } })
})

test('a failed, a foreign and an unknown sandbox end the start with an explanation', async () => {
  await using stage = await openTestServer()
  stage.sandboxes.next = { status: 'ERROR', detail: 'Failed to pull image x' }
  const broken = await stage.start()
  expect(broken.detail).toContain('The image of its spec is missing')
  expect(broken.detail).toContain('Sandbox sb-1')
  const foreign = await stage.start({ sandbox_id: 'sb-1' }, { 'x-user': 'ada' })
  expect(foreign.status).toBe('ERROR')
  for (const sandbox_id of ['sb-1', 'sb-none']) {
    const refused = await stage.call('POST', '/app-conversations', { sandbox_id }, { 'x-user': 'bob' })
    expect([refused.status, refused.json.detail]).toMatchObject([
      422,
      [{ loc: ['body', 'sandbox_id'], msg: 'There is no such sandbox' }],
    ])
  }
  expect(await stage.quota.used).toBe(0)
})

test('invalid requests are refused without a task and a slot', async () => {
  await using stage = await openTestServer()
  const refused = async (body: object, status: number, loc?: string) => {
    const answer = await stage.call('POST', '/app-conversations', body)
    expect(answer.status).toBe(status)
    if (loc !== undefined) expect(JSON.stringify(answer.json)).toContain(loc)
  }
  await refused({ llm_profile: 'nope' }, 422, 'llm_profile')
  await refused({ agent_profile_id: 'x' }, 422, 'agent_profile_id')
  await refused({ parent_conversation_id: '00000000000000000000000000000001' }, 422, 'parent_conversation_id')
  await refused({ selected_repository: 'https://u:sk-canary@h.example/x.git' }, 422, 'selected_repository')
  expect((await stage.call('GET', '/app-conversations/start-tasks/count')).json).toBe(0)
  await refused({ sandbox_spec_id: 'nope' }, 422, '"loc":["body","sandbox_spec_id"]')
  stage.sandboxes.startProblem = new (await import('@slipway/protocol')).Problem('too_many', 'Full')
  await refused({}, 429)
  const { json } = await stage.call('GET', '/app-conversations/start-tasks/search')
  expect(json.items.map(({ status }: { status: string }) => status)).toEqual(['ERROR', 'ERROR'])
  expect(await stage.quota.used).toBe(0)
  expect(stage.logged.join()).not.toContain('sk-canary')
})

test('a start that a restart interrupts becomes an error, and its slot is released once', async () => {
  const first = await openTestServer()
  first.sandboxes.next = { status: 'STARTING', detail: null }
  const { json } = await first.call('POST', '/app-conversations', {})
  await first.until(
    () => first.task(json.id),
    ({ status }) => status === 'WAITING_FOR_SANDBOX',
  )
  const [row] = await first.controlPlane.startTasks.get([toDashedUuid(json.id)])
  expect(await first.quota.used).toBe(1)
  // A stop ends it in the same way.
  await first.starter[Symbol.asyncDispose]()
  expect((await first.task(json.id)).detail).toContain(
    'restarted while this start was in WAITING_FOR_SANDBOX',
  )
  expect(await first.quota.used).toBe(0)
  // After a crash the row would still be as it was.
  if (row === undefined) throw new Error('the row of the start is gone')
  await first.controlPlane.startTasks.removeByConversation(String(row.conversation))
  await first.controlPlane.startTasks.add({ ...row, status: 'WAITING_FOR_SANDBOX' })
  expect(await first.quota.used).toBe(1)
  await first.starter.recover()
  expect(await first.quota.used).toBe(0)
  expect(await first.task(json.id)).toMatchObject({
    status: 'ERROR',
    app_conversation_id: row?.conversation?.replaceAll('-', ''),
  })
  expect((await first.controlPlane.startTasks.get([toDashedUuid(json.id)]))[0]?.quota_day).toBeNull()
  await first.starter.recover()
  expect(await first.quota.used).toBe(0)
  await first[Symbol.asyncDispose]()
})

/** A server that reports the first write of each start as failed. */
function openFailing(failure: Problem, isStored: boolean) {
  return openTestServer({
    controlPlane: (controlPlane) => ({
      ...controlPlane,
      startTasks: new Proxy(controlPlane.startTasks, {
        get(rows, name) {
          const method: unknown = Reflect.get(rows, name)
          if (typeof method !== 'function') return method
          if (name !== 'add') return method.bind(rows)
          return async (row: StartTaskRow) => {
            if (isStored) await rows.add(row)
            throw failure
          }
        },
      }),
    }),
  })
}

test.for([true, false])(
  'a start whose first write is reported as failed ends later, and its slot is released once (stored: %s)',
  async (isStored) => {
    await using stage = await openFailing(storageUnavailableProblem('control.db cannot be used'), isStored)
    expect((await stage.call('POST', '/app-conversations', {})).status).toBe(503)
    expect(await stage.quota.used).toBe(isStored ? 1 : 0)
    await stage.until(
      async () => stage.quota.used,
      (used) => used === 0,
    )
    const { json } = await stage.call('GET', '/app-conversations/start-tasks/search')
    expect(json.items.map(({ status }: { status: string }) => status)).toEqual(isStored ? ['ERROR'] : [])
    await stage.starter.recover()
    expect(await stage.quota.used).toBe(0)
  },
)

test('the slot of a start that a full disk refuses is released at once', async () => {
  await using stage = await openFailing(storageFullProblem(), false)
  expect((await stage.call('POST', '/app-conversations', {})).status).toBe(507)
  expect(await stage.quota.used).toBe(0)
})

test('a stop settles a start whose first write is reported as failed', async () => {
  await using stage = await openFailing(storageUnavailableProblem('control.db cannot be used'), false)
  expect((await stage.call('POST', '/app-conversations', {})).status).toBe(503)
  await stage.starter[Symbol.asyncDispose]()
  expect(await stage.quota.used).toBe(0)
})

test('concurrent starts of one id are one start, and other owners get a conflict', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer()
  stage.sandboxes.next = { status: 'STARTING', detail: null }
  const conversation_id = crypto.randomUUID()
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => stage.call('POST', '/app-conversations', { conversation_id })),
  )
  expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1)
  expect(stage.sandboxes.entries.size).toBe(1)
  expect(await stage.quota.used).toBe(1)
  expect(
    (await stage.call('POST', '/app-conversations', { conversation_id }, { 'x-user': 'bob' })).status,
  ).toBe(409)
})

test('with a grouping strategy conversations share a sandbox, each in its own directory', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer()
  stage.accounts.currentSettings = {
    ...stage.accounts.currentSettings,
    sandbox_grouping_strategy: 'GROUP_BY_NEWEST',
  }
  const tasks = [await stage.start(), await stage.start(), await stage.start({}, { 'x-user': 'bob' })]
  expect(tasks.map((task) => task.sandbox_id)).toEqual(['sb-1', 'sb-1', 'sb-2'])
  expect(stage.sandboxes.entries.size).toBe(2)
  const rows = await stage.controlPlane.conversations.listBySandbox('sb-1')
  const project = `${stage.sandboxes.getSandbox('sb-1').directory}/project`
  expect(rows.map(({ members }) => JSON.parse(members).projectDir)).toEqual(
    rows.map(({ id }) => `${project}/${id.replaceAll('-', '')}`),
  )
})

test('a lost answer of the agent server is retried without a second conversation', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer()
  const first = await stage.start()
  expect(first).toMatchObject({ status: 'READY', detail: null })
  const place = stage.sandboxes.getSandbox('sb-1')
  await using proxy = await openLossyProxy(place.url)
  place.url = proxy.url
  const second = await stage.start({ sandbox_id: 'sb-1', initial_message: { content: 'Once.' } })
  expect(second).toMatchObject({ status: 'READY', sandbox_id: 'sb-1' })
  expect(proxy.lost()).toBe(1)
  expect(second.app_conversation_id).not.toBe(first.app_conversation_id)
  const count = async () =>
    (await stage.call('GET', `/conversation/${second.app_conversation_id}/events/count?kind=MessageEvent`))
      .json
  expect(await stage.until(count, (number) => number === 2)).toBe(2)
})

/** Passes requests on, and loses the first answer to a creation. */
async function openLossyProxy(
  to: string,
): Promise<AsyncDisposable & { readonly url: string; readonly lost: () => number }> {
  let lost = 0
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const isCreation = request.method === 'POST' && request.url === '/api/conversations'
    const answer = await fetch(to + request.url, {
      method: String(request.method),
      headers: {
        'content-type': 'application/json',
        'x-session-api-key': String(request.headers['x-session-api-key']),
      },
      ...(request.method === 'GET' ? {} : { body: Buffer.concat(chunks) }),
    })
    const text = await answer.text()
    if (isCreation && lost++ === 0) return void request.socket.destroy()
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    lost: () => Math.min(lost, 1),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

test('a conversation has the marketplaces of its user, with the token of their host, which stays hidden', {
  timeout: slowTestTimeoutMs,
}, async () => {
  await using stage = await openTestServer()
  const marketplaces = [
    { name: 'own', source: 'github:acme/tools', ref: 'v1', repo_path: 'team' },
    { name: 'far', source: 'https://git.example.org/group/tools' },
  ]
  stage.accounts.currentSettings = userSettings.parse({ registered_marketplaces: marketplaces })
  stage.accounts.tokens = { github: { token: new Secret('token-canary-4711') } }
  const task = await stage.start({})
  expect(task.status).toBe('READY')
  const { url, key } = stage.sandboxes.getSandbox('sb-1')
  const response = await fetch(`${url}/api/conversations/${task.app_conversation_id}`, {
    headers: { 'x-session-api-key': key },
  })
  const info = JSON.stringify(await response.json())
  const registered = JSON.parse(info).agent.agent_context.registered_marketplaces
  expect(registered).toMatchObject([
    { name: 'own', source: expect.stringContaining('@github.com/acme/tools.git'), ref: 'v1' },
    { name: 'far', source: 'https://git.example.org/group/tools', auto_load: false },
  ])
  const own = await stage.conversation(task.app_conversation_id)
  expect(JSON.stringify([task, info, own]) + stage.logged.join()).not.toContain('canary')
})

test('secrets of a start are in no task, log or row', { timeout: slowTestTimeoutMs }, async () => {
  await using stage = await openTestServer()
  stage.accounts.secretValues = { SAVED: 'canary-saved-value' }
  const task = await stage.start({
    secrets: {
      PLAIN: 'canary-plain-value',
      SOURCE: { kind: 'StaticSecret', value: 'canary-source-value' },
      LOOKUP: { url: 'http://127.0.0.1:1/x', headers: { authorization: 'Bearer canary-header-value' } },
    },
  })
  expect(task.status).toBe('READY')
  expect(task.request.secrets).toEqual({ PLAIN: '**********', SOURCE: '**********', LOOKUP: '**********' })
  const info = await stage.conversation(task.app_conversation_id)
  const rows = await stage.controlPlane.startTasks.get([toDashedUuid(task.id)])
  expect(JSON.stringify([task, info, rows]) + stage.logged.join()).not.toContain('canary')
  expect((await stage.call('POST', '/app-conversations', { secrets: { LLM_API_KEY: 'x' } })).status).toBe(422)
})

function toDashedUuid(hex: string): string {
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

test('a model at a loopback port that its sandbox does not reach is refused at once, with the setting', async () => {
  const spec = { ...sandboxSpec.parse({ id: 'own' }), backend: 'process' }
  const shared: ResolvedSpec = { ...spec, id: 'shared', network: 'shared' }
  const none: ResolvedSpec = { ...spec, id: 'none', network: 'none' }
  const open: ResolvedSpec = { ...spec, id: 'open', host_ports: [8080, 11434] }
  const docker: ResolvedSpec = { ...spec, id: 'docker', backend: 'docker' }
  const specs = new SandboxSpecs([spec, shared, none, open, docker], 0)
  const hostUrl = (port: number, network: string) =>
    network === 'shared' ? `http://127.0.0.1:${port}` : 'http+unix://socket'
  const check = createModelAddressCheck(specs, new Map([['process', { hostUrl }]]))
  const model = (base_url?: string, name = 'openai-compatible/x') => llm.parse({ model: name, base_url })
  const refusal = (id: string | undefined, one: Llm) => {
    try {
      check(id, one)
      return undefined
    } catch (error) {
      return JSON.stringify(error instanceof Problem ? error.issues : error)
    }
  }
  const own = 'http://127.0.0.1:11434/v1'
  for (const [address, port] of [
    [own, 11434],
    ['http://localhost:1234', 1234],
    ['http://127.0.0.2', 80],
    ['https://localhost', 443],
  ] as const) {
    expect(refusal(undefined, model(address))).toContain(`port ${port} of this machine`)
    expect(refusal('own', model(address))).toContain(`SLIPWAY_SANDBOX_HOST_PORTS=${port},`)
    expect(refusal('shared', model(address))).toBeUndefined()
    expect(refusal('docker', model(address))).toBeUndefined()
    expect(refusal('none', model(address))).toContain('have no network')
  }
  expect(refusal('own', model(undefined, 'ollama/qwen3'))).toContain('SLIPWAY_SANDBOX_HOST_PORTS=11434,')
  expect(refusal('open', model(own))).toBeUndefined()
  expect(refusal('open', model('http://127.0.0.1:1234'))).toContain(
    'SLIPWAY_SANDBOX_HOST_PORTS=8080,11434,1234,',
  )
  expect(refusal('open', model('http://[::1]:11434'))).toContain('with 127.0.0.1')
  for (const other of [
    'http://models.example:11434',
    'http://10.0.0.1',
    'http://localhost.example',
    undefined,
  ])
    expect(refusal('own', model(other))).toBeUndefined()

  await using stage = await openTestServer({ checkModelAddress: (_, one) => check('own', one) })
  stage.accounts.baseUrl = own
  const refused = await stage.call('POST', '/app-conversations', {})
  expect(refused.status).toBe(422)
  expect(JSON.stringify(refused.json)).toContain('SLIPWAY_SANDBOX_HOST_PORTS=11434')
  // No sandbox was started, and the slot of the day is free again.
  expect(stage.sandboxes.entries.size).toBe(0)
  expect(await stage.quota.used).toBe(0)
})

test('SLIPWAY_SANDBOX_HOST_PORTS is for specs that name no ports', () => {
  const ports = (env: Record<string, string>) => readConfig(env).specs.map(({ host_ports }) => host_ports)
  expect(ports({})).toEqual([[]])
  expect(ports({ SLIPWAY_SANDBOX_HOST_PORTS: '11434, 1234' })).toEqual([[11434, 1234]])
  const specs = '[{"id":"a"},{"id":"b","host_ports":[80]}]'
  expect(ports({ SLIPWAY_SANDBOX_SPECS: specs, SLIPWAY_SANDBOX_HOST_PORTS: '1' })).toEqual([[1], [80]])
  for (const wrong of ['ollama', '0', '65536', '1.5', '80;81'])
    expect(() => readConfig({ SLIPWAY_SANDBOX_HOST_PORTS: wrong })).toThrow('SLIPWAY_SANDBOX_HOST_PORTS')
})
