import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { startConversationRequest } from '@slipway/protocol'
import { exportEvents, openStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { openCreateDeps, openRegistry, temporaryDirectory } from '../../../testing/fixtures.ts'
import { createConversation } from './create.ts'
import { importEvents } from './import.ts'
import { buildStartSettings } from './start-request.ts'

test('an initial message whose server died before it was stored is stored when the creator asks again, and once', async () => {
  using place = temporaryDirectory()
  const directory = place.path
  await using storage = await openStorage({ directory })
  await using agents = await openRegistry(storage, directory)
  const parts = await openCreateDeps(storage, agents, directory)
  const id = randomUUID()
  const request = startConversationRequest.parse({
    agent: { llm: { model: 'scripted/x', script: [{ text: 'Done.' }] } },
    workspace: { working_dir: join(directory, 'workspace') },
    conversation_id: id,
    initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    autotitle: false,
  })
  await storage.conversations.create({ id, ...agents.settings.seal(buildStartSettings(request).settings) })
  const { created } = await createConversation(parts, request)
  await createConversation(parts, request)
  await (await agents.get(id)).waitUntilIdle()
  await createConversation(parts, request)
  expect(created).toBe(false)
  expect(await storage.log.count(id, { kind: 'MessageEvent', source: 'user' })).toBe(1)
  expect(await storage.log.count(id, { kind: 'MessageEvent', source: 'agent' })).toBe(1)
})

test('an imported conversation gets an agent, once, and continues with its log', async () => {
  using place = temporaryDirectory()
  const directory = place.path
  await using storage = await openStorage({ directory })
  await using agents = await openRegistry(storage, directory)
  const parts = await openCreateDeps(storage, agents, directory)
  const begin = (id: string, more: object = {}) =>
    createConversation(
      parts,
      startConversationRequest.parse({
        agent: { llm: { model: 'scripted/x', script: [{ text: 'First.' }, { text: 'Second.' }] } },
        workspace: { working_dir: join(directory, 'workspace') },
        conversation_id: id,
        autotitle: false,
        ...more,
      }),
    )
  const message = (text: string) => ({ content: [{ type: 'text', text }] })
  const first = randomUUID()
  const { record } = await begin(first, { initial_message: message('One.') })
  await (await agents.get(first)).waitUntilIdle()
  const [source = record] = await storage.conversations.get([first])
  const id = randomUUID()
  const lines = async function* () {
    yield Buffer.from(`${JSON.stringify({ conversation_id: id, title: 'Mine' })}\n`)
    yield* exportEvents(storage.log, source, { meta: false })
  }
  await importEvents(storage, lines(), { keep: true, now: () => Date.now() * 1000 })
  await expect(agents.get(id)).rejects.toMatchObject({ code: 'conflict' })
  await expect(begin(id, { initial_message: message('Two.') })).rejects.toMatchObject({ code: 'invalid' })
  expect(await begin(id, { tags: { a: 'b' } })).toMatchObject({
    created: true,
    record: { head: source.head, title: 'Mine', tags: { a: 'b' } },
  })
  expect(await begin(id)).toMatchObject({ created: false, record: { tags: { a: 'b' } } })
  const conversation = await agents.get(id)
  await conversation.send({ role: 'user', ...message('Two.'), run: true } as never, randomUUID())
  await conversation.waitUntilIdle()
  const [before, after] = [await storage.log.read(first, 0, 100), await storage.log.read(id, 0, 100)]
  expect(after.slice(0, before.length).map(({ bytes }) => bytes)).toEqual(before.map(({ bytes }) => bytes))
  expect(after.length).toBeGreaterThan(before.length)
})
