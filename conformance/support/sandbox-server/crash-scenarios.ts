import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import {
  agrees,
  answers,
  eventually,
  hasNoStrays,
  inside,
  type Known,
  rowsOf,
  type Scenario,
  settled,
  writeFile,
} from './crash-rounds.ts'
import type { Answer, SandboxInfo, SandboxServer } from './server.ts'

/** Start, pause, resume, delete. */
export const life: Scenario = {
  name: 'life',
  async run(server, known) {
    const { id } = await known.ask('create', () => create(server, known.name))
    known.box = await server.until(id, 'RUNNING')
    await writeFile(known.box, known)
    for (const verb of ['pause', 'resume']) {
      await known.ask(verb, () => must(server.call('POST', `/api/v1/sandboxes/${id}/${verb}`)))
      await server.until(id, verb === 'pause' ? 'PAUSED' : 'RUNNING')
    }
    await known.ask('delete', () => must(server.call('DELETE', `/api/v1/sandboxes/${id}`)))
    await server.untilGone(id)
    await eventually(server, () => expect(rowsOf(server.data)).toEqual([]))
  },
  async check(server, known) {
    const listed = await server.sandboxes()
    const least = known.isAnswered && known.verb !== 'delete' ? 1 : 0
    // It may have been killed before anything was asked.
    const isNone = known.verb === 'nothing' || (known.isAnswered && known.verb === 'delete')
    const most = isNone ? 0 : 1
    const isOpen = isNone || known.verb === 'create' || known.verb === 'delete'
    expect(listed.length).toBeGreaterThanOrEqual(isOpen ? least : 1)
    expect(listed.length).toBeLessThanOrEqual(most)
    for (const { id } of listed) {
      const box = await settled(server, id)
      expect(afterwards(known)).toContain(box.status)
      await agrees(server, box, known)
    }
    await hasNoStrays(server)
    if (known.verb === 'delete') await server.call('DELETE', `/api/v1/sandboxes/${known.box?.id}`)
    else await repeat(server, known)
    await server.untilGone()
    expect(await server.sandboxes()).toEqual([])
  },
}

/** What may have become of a sandbox, from what was asked for and answered. */
function afterwards({ verb, isAnswered }: Known): readonly string[] {
  if (verb === 'pause') return isAnswered ? ['PAUSED'] : ['PAUSED', 'RUNNING']
  if (verb === 'resume') return isAnswered ? ['RUNNING'] : ['PAUSED', 'RUNNING']
  return ['RUNNING']
}

/** Every verb once more; the last one deletes it. */
async function repeat(server: SandboxServer, known: Known): Promise<void> {
  const { id } = await create(server, known.name)
  if (known.box !== undefined) expect(id).toBe(known.box.id)
  for (const verb of ['pause', 'resume', 'resume', 'pause', 'pause', 'resume']) {
    await must(server.call('POST', `/api/v1/sandboxes/${id}/${verb}`))
  }
  const box = await server.until(id, 'RUNNING')
  if (known.box !== undefined) expect(box.session_api_key).toBe(known.box.session_api_key)
  await agrees(server, box, known)
  await must(server.call('DELETE', `/api/v1/sandboxes/${id}`))
}

/** The same key answers the same sandbox. */
async function create(server: SandboxServer, key: string): Promise<SandboxInfo> {
  const headers = { 'idempotency-key': key }
  return (await must(server.call<SandboxInfo>('POST', '/api/v1/sandboxes', undefined, { headers }))).body
}

async function must<T>(asked: Promise<Answer<T>>): Promise<Answer<T>> {
  const answer = await asked
  if (answer.status !== 200) throw new Error(`answered ${answer.status}: ${JSON.stringify(answer.body)}`)
  return answer
}

const isSpare = ({ owner }: { readonly owner: string | null }) => owner === null

/** A sandbox of the warm pool becomes somebody's. */
export const pool: Scenario = {
  name: 'warm pool',
  env: { SLIPWAY_WARM_POOL: '1' },
  async run(server, known) {
    await eventually(server, () => expect(spares(server)).toEqual(['RUNNING']))
    const { id } = await known.ask('create', () => server.startSandbox())
    known.box = await server.until(id, 'RUNNING')
    await writeFile(known.box, known)
    await known.ask('delete', () => must(server.call('DELETE', `/api/v1/sandboxes/${id}`)))
    await server.untilGone(id)
    await eventually(server, () =>
      expect(rowsOf(server.data).map(({ id: other }) => other)).not.toContain(id),
    )
    await eventually(server, () => expect(spares(server)).toEqual(['RUNNING']))
  },
  async check(server, known) {
    const listed = await server.sandboxes()
    if (known.verb === 'delete' && known.isAnswered) expect(listed).toEqual([])
    if (known.verb === 'create' && known.isAnswered) expect(listed).toHaveLength(1)
    expect(listed.length).toBeLessThanOrEqual(1)
    for (const { id } of listed) {
      const box = await settled(server, id)
      expect(box.status).toBe('RUNNING')
      await agrees(server, box, known)
      await must(server.call('DELETE', `/api/v1/sandboxes/${id}`))
      await server.untilGone(id)
    }
    await eventually(server, () => expect(spares(server)).toEqual(['RUNNING']))
    await hasNoStrays(server)
    const claimed = await server.running()
    expect(await answers(claimed)).toBe(true)
    await must(server.call('DELETE', `/api/v1/sandboxes/${claimed.id}`))
    await server.stop()
    await server.start({ env: { SLIPWAY_WARM_POOL: '0', SLIPWAY_RECONCILE_SECONDS: '1' } })
    await server.untilGone()
    await eventually(server, () => expect(rowsOf(server.data)).toEqual([]))
  },
}

function spares(server: SandboxServer): string[] {
  return rowsOf(server.data)
    .filter(isSpare)
    .map(({ status }) => status)
}

interface Task {
  readonly id: string
  readonly status: string
  readonly detail: string | null
}

/** A conversation is started in a sandbox of its own, and deleted with it. */
export const conversation: Scenario = {
  name: 'conversation',
  env: { LLM_MODEL: 'scripted/test', SLIPWAY_DAILY_CONVERSATION_LIMIT: '100000' },
  hasCommits: true,
  async run(server, known) {
    const id = idOf(known)
    const task = await known.ask('start', () => begin(server, id))
    await untilOver(server, task.id)
    known.box = (await server.sandboxes())[0]
    await cameHome(server, id)
    await known.ask('delete', () => must(server.call('DELETE', `/api/v1/app-conversations/${id}`)))
    await server.untilGone()
    await eventually(server, () => expect(rowsOf(server.data)).toEqual([]))
  },
  async check(server, known) {
    const id = idOf(known)
    const tasks = await tasksOf(server, id)
    // Nobody waits for ever for what nobody does.
    expect(tasks.filter(({ status }) => status !== 'READY' && status !== 'ERROR')).toEqual([])
    if (known.verb === 'start' && known.isAnswered) expect(tasks).toHaveLength(1)
    if (known.verb === 'delete') {
      const { status } = await server.call('DELETE', `/api/v1/app-conversations/${id}`)
      expect(known.isAnswered ? [404] : [200, 404]).toContain(status)
    } else await again(server, id)
    await server.untilGone()
    expect(await tasksOf(server, id)).toEqual([])
    const { body } = await server.call<unknown[]>('GET', `/api/v1/app-conversations?ids=${id}`)
    expect(body).toEqual([null])
    expect(await server.sandboxes()).toEqual([])
  },
}

/** The same id once more: the same conversation, with all that was said, in one sandbox; then it is deleted. */
async function again(server: SandboxServer, id: string): Promise<void> {
  const before = await used(server)
  await untilOver(server, (await begin(server, id)).id)
  expect((await used(server)) - before).toBeLessThanOrEqual(1)
  const boxes = await server.sandboxes()
  expect(boxes).toHaveLength(1)
  await hasNoStrays(server)
  const events = await cameHome(server, id)
  const said = events.filter(({ kind, source }) => kind === 'MessageEvent' && source === 'user')
  expect(said).toHaveLength(1)
  await must(server.call('DELETE', `/api/v1/app-conversations/${id}`))
}

async function used(server: SandboxServer): Promise<number> {
  return (await must(server.call<{ used_today: number }>('GET', '/api/quota/status'))).body.used_today
}

const ids = new Map<string, string>()

function idOf({ name }: Known): string {
  const id = ids.get(name) ?? randomUUID().replaceAll('-', '')
  ids.set(name, id)
  return id
}

async function begin(server: SandboxServer, conversation_id: string): Promise<Task> {
  const initial_message = { content: [{ type: 'text', text: 'Begin.' }] }
  return (
    await must(server.call<Task>('POST', '/api/v1/app-conversations', { conversation_id, initial_message }))
  ).body
}

async function tasksOf(server: SandboxServer, id: string): Promise<readonly Task[]> {
  const path = `/api/v1/app-conversations/start-tasks/search?conversation_id__eq=${id}`
  return (await must(server.call<{ items: Task[] }>('GET', path))).body.items
}

/** Waits until a task is READY. */
async function untilOver(server: SandboxServer, id: string): Promise<void> {
  let last: Task | null | undefined
  await eventually(
    server,
    async () => {
      const { body } = await must(
        server.call<(Task | null)[]>('GET', `/api/v1/app-conversations/start-tasks?ids=${id}`),
      )
      last = body[0]
      expect(['READY', 'ERROR']).toContain(last?.status)
    },
    90_000,
  )
  if (last?.status !== 'READY') throw new Error(`the start ended: ${JSON.stringify(last)}`)
}

interface Line {
  readonly kind: string
  readonly source: string
}

/** Waits until the run is over and everything of it is at home, byte for byte. */
export async function cameHome(server: SandboxServer, id: string): Promise<Line[]> {
  let text = ''
  await eventually(server, async () => {
    const [box] = await server.sandboxes()
    if (box === undefined) throw new Error('there is no sandbox')
    const there = await (await inside(box, `/api/conversations/${id}/export`)).text()
    text = (await must(server.call<string>('GET', `/api/v1/conversation/${id}/events/export`))).body
    expect(text).toBe(there)
    expect(text).toContain('"finished"')
  })
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
}
