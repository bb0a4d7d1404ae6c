import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { startConversationRequest } from '@slipway/protocol'
import { openStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { openCreateDeps, openRegistry, temporaryDirectory } from '../../../testing/fixtures.ts'
import { createConversation } from './create.ts'
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
