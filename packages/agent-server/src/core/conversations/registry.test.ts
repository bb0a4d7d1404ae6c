import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { startConversationRequest } from '@slipway/protocol'
import { FakeClock } from '@slipway/shared/time/testing'
import { openStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { openCreateDeps, openRegistry, temporaryDirectory } from '../../testing/fixtures.ts'
import { createConversation } from './lifecycle/create.ts'

test('a conversation that rests is closed, and continues where it was when it is needed again', async () => {
  using place = temporaryDirectory()
  const directory = place.path
  await using storage = await openStorage({ directory })
  const clock = new FakeClock()
  await using agents = await openRegistry(storage, directory, 60_000, undefined, clock)
  const id = randomUUID()
  const request = startConversationRequest.parse({
    agent: { llm: { model: 'scripted/x', script: [{ text: 'One.' }, { text: 'Two.' }] } },
    workspace: { working_dir: join(directory, 'workspace') },
    conversation_id: id,
    initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    autotitle: false,
  })
  await createConversation(await openCreateDeps(storage, agents, directory), request)
  const first = await agents.get(id)
  await first.waitUntilIdle()
  const isLoaded = async () => (await agents.peek(id)) !== undefined
  await clock.advance(30_000)
  expect(await isLoaded()).toBe(true)
  await clock.advance(90_000)
  await expect.poll(isLoaded).toBe(false)
  const again = await agents.get(id)
  expect(again).not.toBe(first)
  expect(again.state.status).toBe('finished')
  await again.send({
    role: 'user',
    content: [{ type: 'text', text: 'Continue.', cache_prompt: false }],
    run: true,
    sender: undefined,
    extended_content: undefined,
  })
  await again.waitUntilIdle()
  const texts = again.state.view.events.flatMap((event) =>
    event.kind === 'MessageEvent' && event.source === 'agent'
      ? [JSON.stringify(event.llm_message.content)]
      : [],
  )
  expect(texts.map((text) => /One|Two/.exec(text)?.[0])).toEqual(['One', 'Two'])
})

test('memory is released of conversations that nothing was started for, without listeners', async () => {
  using place = temporaryDirectory()
  const directory = place.path
  await using storage = await openStorage({ directory })
  const clock = new FakeClock()
  await using agents = await openRegistry(storage, directory, 1_000_000, undefined, clock)
  const deps = await openCreateDeps(storage, agents, directory)
  const create = async (run: boolean) => {
    const id = randomUUID()
    const request = startConversationRequest.parse({
      agent: { llm: { model: 'scripted/x', script: [{ text: 'One.' }] } },
      workspace: { working_dir: join(directory, 'workspace') },
      conversation_id: id,
      initial_message: { content: [{ type: 'text', text: 'Begin.' }], run },
      autotitle: false,
    })
    await createConversation(deps, request)
    await (await agents.get(id)).waitUntilIdle()
    return id
  }
  const [written, watched, ran] = [await create(false), await create(false), await create(true)]
  const stop = agents.transientUpdates(watched).subscribe(() => {})
  const isLoaded = async (id: string) => (await agents.peek(id)) !== undefined
  await agents.releaseMemory()
  expect(await isLoaded(written)).toBe(true)
  await clock.advance(10_000)
  await agents.releaseMemory()
  expect(await Promise.all([written, watched, ran].map(isLoaded))).toEqual([false, true, true])
  stop()
  const again = await agents.get(written)
  expect(again.state.inputs).toHaveLength(1)
})

test('a conversation whose actions are rejected after some time is not closed before', async () => {
  using place = temporaryDirectory()
  const directory = place.path
  await using storage = await openStorage({ directory })
  const id = randomUUID()
  const request = startConversationRequest.parse({
    agent: {
      llm: {
        model: 'scripted/x',
        script: [{ tool_calls: [{ name: 'terminal', arguments: { command: 'true' } }] }],
      },
      tools: [{ name: 'terminal' }],
    },
    workspace: { working_dir: join(directory, 'workspace') },
    conversation_id: id,
    confirmation_policy: { kind: 'AlwaysConfirm', deadline_seconds: 600 },
    initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    autotitle: false,
  })
  const isRejected = async () =>
    (await storage.log.search(id, { limit: 1, sort_order: 'TIMESTAMP', kind: 'UserRejectObservation' })).items
      .length > 0
  const clock = new FakeClock()
  await using agents = await openRegistry(storage, directory, 50, undefined, clock)
  await createConversation(await openCreateDeps(storage, agents, directory), request)
  const conversation = await agents.get(id)
  await conversation.waitUntilIdle()
  expect(conversation.state.status).toBe('waiting_for_confirmation')
  await clock.advance(599_000)
  expect(await isRejected()).toBe(false)
  await clock.advance(1_000)
  await expect.poll(isRejected, { timeout: 10_000 }).toBe(true)
  expect(conversation.state.pending.size).toBe(0)
})
