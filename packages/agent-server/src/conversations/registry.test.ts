import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startConversationRequest } from '@slipway/protocol'
import { openStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { openCreateDeps, openRegistry, temporaryDirectory } from '../testing/fixtures.ts'
import { createConversation } from './create.ts'

test('a conversation that rests is closed, and goes on where it was when it is needed again', async () => {
  using place = temporaryDirectory()
  const directory = place.path
  await using storage = await openStorage({ directory })
  await using agents = await openRegistry(storage, directory, 50)
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
  while ((await agents.peek(id)) !== undefined) await sleep(10)
  const again = await agents.get(id)
  expect(again).not.toBe(first)
  expect(again.state.status).toBe('finished')
  await again.send({
    role: 'user',
    content: [{ type: 'text', text: 'Go on.', cache_prompt: false }],
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
