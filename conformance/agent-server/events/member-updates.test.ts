import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { AgentDriver, finishStep, scriptedModel } from '../../support/agent-driver.ts'
import { openAgentServer, type TestServer } from '../../support/agent-server.ts'
import { AgentServerApi } from '../../support/agent-server-api.ts'

let server: TestServer
let driver: AgentDriver
let directory: string

beforeAll(async () => {
  server = await openAgentServer()
  directory = await mkdtemp(join(tmpdir(), 'slipway-members-'))
  driver = new AgentDriver({ api: new AgentServerApi(server), directory })
}, 60_000)

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await rm(directory, { recursive: true, force: true })
})

interface Update {
  readonly key?: unknown
  readonly value?: unknown
}

/** Every stream of a conversation; `seen` has the state updates that it sent. */
async function openStreams(id: string) {
  const plain = driver.openSocket(`/sockets/events/${id}`)
  const resumable = driver.openSocket(`/sockets/events/${id}?after=0`)
  const session = driver.openSocket(`/sockets/session/${id}`)
  await plain.waitUntil(({ length }) => length > 0)
  await session.waitUntil(({ length }) => length > 1)
  const abort = new AbortController()
  const response = await driver.api.fetch(`/api/conversations/${id}/events/stream`, { signal: abort.signal })
  let text = ''
  const reading = (async () => {
    for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString()
  })().catch(() => undefined)
  await expect.poll(() => text, { timeout: 30_000 }).toContain(': open')
  const frames = () => resumable.frames.map((frame) => JSON.parse(String(frame)) as { hint?: Update })
  const seen: Record<string, () => Update[]> = {
    socket: () => plain.events() as Update[],
    after: () => frames().flatMap(({ hint }) => (hint === undefined ? [] : [hint])),
    session: () => session.events().flatMap(({ event }) => (event === undefined ? [] : [event as Update])),
    sse: () => [...text.matchAll(/^event: hint\ndata: (.*)$/gm)].map(([, data]) => JSON.parse(String(data))),
  }
  return {
    async expectUpdate(key: string, value: unknown) {
      for (const [name, updates] of Object.entries(seen)) {
        const find = () =>
          updates()
            .filter((update) => update.key === key)
            .at(-1)?.value
        await expect.poll(() => [name, find()], { timeout: 30_000 }).toEqual([name, value])
      }
    },
    async [Symbol.asyncDispose]() {
      abort.abort()
      await reading
      await plain[Symbol.asyncDispose]()
      await resumable[Symbol.asyncDispose]()
      await session[Symbol.asyncDispose]()
    },
  }
}

test('title, tags and names of secrets reach every stream when they change, and no stream shows a value', {
  timeout: 120_000,
}, async () => {
  const { id } = await driver.create({ llm: scriptedModel([finishStep()]) })
  await using streams = await openStreams(id)
  expect((await driver.api.sendJson('PATCH', `/api/conversations/${id}`, { title: 'Named' })).status).toBe(
    200,
  )
  await streams.expectUpdate('title', 'Named')
  await driver.api.sendJson('PATCH', `/api/conversations/${id}`, { tags: { team: 'red' } })
  await streams.expectUpdate('tags', { team: 'red' })
  const secrets = { GITHUB: 'member-canary-value' }
  expect((await driver.post(id, 'secrets', { secrets })).status).toBe(200)
  const { body } = await driver.api.requestJson<{ secret_registry: object }>(`/api/conversations/${id}`)
  expect(JSON.stringify(body.secret_registry)).toContain('GITHUB')
  await streams.expectUpdate('secret_registry', body.secret_registry)
  expect(JSON.stringify(body)).not.toContain('member-canary')
  // They are told, not stored.
  expect(await driver.getEvents(id)).toEqual([])
})

test('a title that comes on its own reaches every stream', { timeout: 120_000 }, async () => {
  const { id } = await driver.create({ llm: scriptedModel([finishStep()]) }, { autotitle: true })
  await using streams = await openStreams(id)
  await driver.sendMessage(id, [{ type: 'text', text: 'Paint the shed.' }])
  await expect
    .poll(async () => ((await driver.getInfo(id)) as unknown as { title: string | null }).title, {
      timeout: 30_000,
    })
    .not.toBeNull()
  const { body } = await driver.api.requestJson<{ title: string }>(`/api/conversations/${id}`)
  await streams.expectUpdate('title', body.title)
})
