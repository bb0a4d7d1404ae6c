import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import {
  type ClientState,
  type CrashScenario,
  expectConsistent,
  fetchInSandbox,
  isResponsive,
  readSandboxRows,
  retryUntil,
  waitForNoStrays,
  waitUntilSettled,
  writeMarkerFile,
} from './crash-rounds.ts'
import type { JsonResponse, SandboxInfo, SandboxServer } from './server.ts'

/** Start, pause, resume, delete. */
export const lifecycleScenario: CrashScenario = {
  name: 'life',
  async run(server, client) {
    const { id } = await client.request('create', () => createSandbox(server, client.name))
    client.sandbox = await server.waitForStatus(id, 'RUNNING')
    await writeMarkerFile(client.sandbox, client)
    for (const verb of ['pause', 'resume']) {
      await client.request(verb, () =>
        expectOk(server.requestJson('POST', `/api/v1/sandboxes/${id}/${verb}`)),
      )
      await server.waitForStatus(id, verb === 'pause' ? 'PAUSED' : 'RUNNING')
    }
    await client.request('delete', () => expectOk(server.requestJson('DELETE', `/api/v1/sandboxes/${id}`)))
    await server.waitUntilGone(id)
    await retryUntil(server, () => expect(readSandboxRows(server.data)).toEqual([]))
  },
  async check(server, client) {
    const sandboxes = await server.listSandboxes()
    const minCount = client.isAcknowledged && client.lastRequest !== 'delete' ? 1 : 0
    // The server may have been killed before the first request.
    const isNone =
      client.lastRequest === 'nothing' || (client.isAcknowledged && client.lastRequest === 'delete')
    const maxCount = isNone ? 0 : 1
    const isOpen = isNone || client.lastRequest === 'create' || client.lastRequest === 'delete'
    expect(sandboxes.length).toBeGreaterThanOrEqual(isOpen ? minCount : 1)
    expect(sandboxes.length).toBeLessThanOrEqual(maxCount)
    for (const { id } of sandboxes) {
      const sandbox = await waitUntilSettled(server, id)
      expect(allowedStatuses(client)).toContain(sandbox.status)
      await expectConsistent(server, sandbox, client)
    }
    await waitForNoStrays(server)
    if (client.lastRequest === 'delete')
      await server.requestJson('DELETE', `/api/v1/sandboxes/${client.sandbox?.id}`)
    else await repeatRequests(server, client)
    await server.waitUntilGone()
    expect(await server.listSandboxes()).toEqual([])
  },
}

/** The possible states of a sandbox after these requests and replies. */
function allowedStatuses({ lastRequest, isAcknowledged }: ClientState): readonly string[] {
  if (lastRequest === 'pause') return isAcknowledged ? ['PAUSED'] : ['PAUSED', 'RUNNING']
  if (lastRequest === 'resume') return isAcknowledged ? ['RUNNING'] : ['PAUSED', 'RUNNING']
  return ['RUNNING']
}

/** Repeats every request; the last one deletes the sandbox. */
async function repeatRequests(server: SandboxServer, client: ClientState): Promise<void> {
  const { id } = await createSandbox(server, client.name)
  if (client.sandbox !== undefined) expect(id).toBe(client.sandbox.id)
  for (const verb of ['pause', 'resume', 'resume', 'pause', 'pause', 'resume']) {
    await expectOk(server.requestJson('POST', `/api/v1/sandboxes/${id}/${verb}`))
  }
  const sandbox = await server.waitForStatus(id, 'RUNNING')
  if (client.sandbox !== undefined) expect(sandbox.session_api_key).toBe(client.sandbox.session_api_key)
  await expectConsistent(server, sandbox, client)
  await expectOk(server.requestJson('DELETE', `/api/v1/sandboxes/${id}`))
}

/** The same key returns the same sandbox. */
async function createSandbox(server: SandboxServer, key: string): Promise<SandboxInfo> {
  const headers = { 'idempotency-key': key }
  return (
    await expectOk(server.requestJson<SandboxInfo>('POST', '/api/v1/sandboxes', undefined, { headers }))
  ).body
}

async function expectOk<T>(request: Promise<JsonResponse<T>>): Promise<JsonResponse<T>> {
  const response = await request
  if (response.status !== 200)
    throw new Error(`answered ${response.status}: ${JSON.stringify(response.body)}`)
  return response
}

const isPooled = ({ owner }: { readonly owner: string | null }) => owner === null

/** A user claims a sandbox of the warm pool. */
export const warmPoolScenario: CrashScenario = {
  name: 'warm pool',
  env: { SLIPWAY_WARM_POOL: '1' },
  async run(server, client) {
    await retryUntil(server, () => expect(pooledStatuses(server)).toEqual(['RUNNING']))
    // Its own reads have what is synced alone, this one of another process has more: a later write is behind
    // it.
    const secret = { name: `AFTER_${client.name.replaceAll('-', '_')}`, value: 'x' }
    expect((await server.requestJson('POST', '/api/v1/secrets', secret)).status).toBe(201)
    const { id } = await client.request('create', () => server.startSandbox())
    client.sandbox = await server.waitForStatus(id, 'RUNNING')
    await writeMarkerFile(client.sandbox, client)
    await client.request('delete', () => expectOk(server.requestJson('DELETE', `/api/v1/sandboxes/${id}`)))
    await server.waitUntilGone(id)
    await retryUntil(server, () =>
      expect(readSandboxRows(server.data).map(({ id: other }) => other)).not.toContain(id),
    )
    await retryUntil(server, () => expect(pooledStatuses(server)).toEqual(['RUNNING']))
  },
  async check(server, client) {
    const sandboxes = await server.listSandboxes()
    if (client.lastRequest === 'delete' && client.isAcknowledged) expect(sandboxes).toEqual([])
    if (client.lastRequest === 'create' && client.isAcknowledged) expect(sandboxes).toHaveLength(1)
    expect(sandboxes.length).toBeLessThanOrEqual(1)
    for (const { id } of sandboxes) {
      const sandbox = await waitUntilSettled(server, id)
      expect(sandbox.status).toBe('RUNNING')
      await expectConsistent(server, sandbox, client)
      await expectOk(server.requestJson('DELETE', `/api/v1/sandboxes/${id}`))
      await server.waitUntilGone(id)
    }
    await retryUntil(server, () => expect(pooledStatuses(server)).toEqual(['RUNNING']))
    await waitForNoStrays(server)
    const claimed = await server.startRunningSandbox()
    expect(await isResponsive(claimed, 30_000)).toBe(true)
    await expectOk(server.requestJson('DELETE', `/api/v1/sandboxes/${claimed.id}`))
    await server.stop()
    await server.start({ env: { SLIPWAY_WARM_POOL: '0', SLIPWAY_RECONCILE_SECONDS: '1' } })
    await server.waitUntilGone()
    await retryUntil(server, () => expect(readSandboxRows(server.data)).toEqual([]))
  },
}

function pooledStatuses(server: SandboxServer): string[] {
  return readSandboxRows(server.data)
    .filter(isPooled)
    .map(({ status }) => status)
}

interface StartTask {
  readonly id: string
  readonly status: string
  readonly detail: string | null
}

/** A conversation is started in its own sandbox, and deleted with it. */
export const conversationScenario: CrashScenario = {
  name: 'conversation',
  env: { LLM_MODEL: 'scripted/test', SLIPWAY_DAILY_CONVERSATION_LIMIT: '100000' },
  hasCommits: true,
  async run(server, client) {
    const id = conversationId(client)
    const task = await client.request('start', () => startConversation(server, id))
    await waitUntilReady(server, task.id)
    client.sandbox = (await server.listSandboxes())[0]
    await waitUntilIngested(server, id)
    await client.request('delete', () =>
      expectOk(server.requestJson('DELETE', `/api/v1/app-conversations/${id}`)),
    )
    await server.waitUntilGone()
    await retryUntil(server, () => expect(readSandboxRows(server.data)).toEqual([]))
  },
  async check(server, client) {
    const id = conversationId(client)
    const tasks = await listStartTasks(server, id)
    // A limit on waiting for a start that never happens.
    expect(tasks.filter(({ status }) => status !== 'READY' && status !== 'ERROR')).toEqual([])
    if (client.lastRequest === 'start' && client.isAcknowledged) expect(tasks).toHaveLength(1)
    if (client.lastRequest === 'delete') {
      const { status } = await server.requestJson('DELETE', `/api/v1/app-conversations/${id}`)
      expect(client.isAcknowledged ? [404] : [200, 404]).toContain(status)
    } else await startAgain(server, id)
    await server.waitUntilGone()
    expect(await listStartTasks(server, id)).toEqual([])
    const { body } = await server.requestJson<unknown[]>('GET', `/api/v1/app-conversations?ids=${id}`)
    expect(body).toEqual([null])
    expect(await server.listSandboxes()).toEqual([])
  },
}

/**
 * The same id once more: the same conversation, with all its messages, in one sandbox; then it is deleted.
 */
async function startAgain(server: SandboxServer, id: string): Promise<void> {
  const before = await conversationsToday(server)
  await waitUntilReady(server, (await startConversation(server, id)).id)
  expect((await conversationsToday(server)) - before).toBeLessThanOrEqual(1)
  const sandboxes = await server.listSandboxes()
  expect(sandboxes).toHaveLength(1)
  await waitForNoStrays(server)
  const events = await waitUntilIngested(server, id)
  const messages = events.filter(({ kind, source }) => kind === 'MessageEvent' && source === 'user')
  expect(messages).toHaveLength(1)
  await expectOk(server.requestJson('DELETE', `/api/v1/app-conversations/${id}`))
}

async function conversationsToday(server: SandboxServer): Promise<number> {
  return (await expectOk(server.requestJson<{ used_today: number }>('GET', '/api/quota/status'))).body
    .used_today
}

const conversationIds = new Map<string, string>()

function conversationId({ name }: ClientState): string {
  const id = conversationIds.get(name) ?? randomUUID().replaceAll('-', '')
  conversationIds.set(name, id)
  return id
}

async function startConversation(server: SandboxServer, conversation_id: string): Promise<StartTask> {
  const initial_message = { content: [{ type: 'text', text: 'Begin.' }] }
  return (
    await expectOk(
      server.requestJson<StartTask>('POST', '/api/v1/app-conversations', {
        conversation_id,
        initial_message,
      }),
    )
  ).body
}

async function listStartTasks(server: SandboxServer, id: string): Promise<readonly StartTask[]> {
  const path = `/api/v1/app-conversations/start-tasks/search?conversation_id__eq=${id}`
  return (await expectOk(server.requestJson<{ items: StartTask[] }>('GET', path))).body.items
}

/** Waits until a task is READY. */
async function waitUntilReady(server: SandboxServer, id: string): Promise<void> {
  let last: StartTask | null | undefined
  await retryUntil(
    server,
    async () => {
      const { body } = await expectOk(
        server.requestJson<(StartTask | null)[]>('GET', `/api/v1/app-conversations/start-tasks?ids=${id}`),
      )
      last = body[0]
      expect(['READY', 'ERROR']).toContain(last?.status)
    },
    90_000,
  )
  if (last?.status !== 'READY') throw new Error(`the start ended: ${JSON.stringify(last)}`)
}

interface EventLine {
  readonly kind: string
  readonly source: string
}

/** Waits until the run is over and all of its events are ingested, byte for byte. */
export async function waitUntilIngested(server: SandboxServer, id: string): Promise<EventLine[]> {
  let text = ''
  await retryUntil(server, async () => {
    const [sandbox] = await server.listSandboxes()
    if (sandbox === undefined) throw new Error('there is no sandbox')
    const sourceLog = await (await fetchInSandbox(sandbox, `/api/conversations/${id}/export`)).text()
    text = (await expectOk(server.requestJson<string>('GET', `/api/v1/conversation/${id}/events/export`)))
      .body
    expect(text).toBe(sourceLog)
    expect(text).toContain('"finished"')
  })
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
}
