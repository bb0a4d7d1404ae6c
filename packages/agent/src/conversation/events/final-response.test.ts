import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type EventDraft, openStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { actionEvent, messageEvent } from '../testing/arbitraries.ts'
import type { LogEvent } from '../view/log-event.ts'
import { finalResponse } from './final-response.ts'

const conversation = '5f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'

/** What is answered of a log with these events, and how many events of it were read for that. */
async function answerOf(events: readonly LogEvent[]): Promise<{ response: string; read: number }> {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-agent-'))
  const storage = await openStorage({ directory })
  try {
    await storage.conversations.create({ id: conversation })
    // Events as our own code writes them: the log gives them their times.
    await storage.log.append(conversation, events as unknown as readonly EventDraft[])
    let read = 0
    const counting: typeof storage.log = Object.create(storage.log, {
      search: {
        value: async (...args: Parameters<typeof storage.log.search>) => {
          const page = await storage.log.search(...args)
          read += page.items.length
          return page
        },
      },
    })
    return { response: await finalResponse(counting, conversation), read }
  } finally {
    await storage[Symbol.asyncDispose]()
    rmSync(directory, { recursive: true })
  }
}

function finish(id: string, message: string | undefined): LogEvent {
  const event = actionEvent({ id, command: 'finish' })
  if (event.kind !== 'ActionEvent') throw new Error('no action')
  const call = { id: `${id}c`, name: 'finish', arguments: '{}', origin: 'completion' as const }
  const own = message === undefined ? null : { message, kind: 'FinishAction' as const }
  return { ...event, source: 'agent', tool_name: 'finish', tool_call: call, action: own }
}

test('there is no final response without a message of the agent', async () => {
  expect((await answerOf([])).response).toBe('')
  expect((await answerOf([messageEvent('u', 'user', 'Hello?'), actionEvent({ id: 'a' })])).response).toBe('')
})

test('the newest of finish and agent message is the answer, also after a new question', async () => {
  const question = messageEvent('u', 'user', 'What now?')
  const message = messageEvent('m', 'agent', 'It is done.')
  expect((await answerOf([message, finish('f', 'All done.'), question])).response).toBe('All done.')
  expect((await answerOf([finish('f', 'All done.'), message, question])).response).toBe('It is done.')
  expect((await answerOf([message, finish('f', undefined)])).response).toBe('')
  expect(
    (await answerOf([finish('f', 'First.'), finish('g', 'Second.'), actionEvent({ id: 'a' })])).response,
  ).toBe('Second.')
})

test('what only looks like a finish is none', async () => {
  const imposter = actionEvent({ id: 'a', command: 'echo "finish"' })
  expect((await answerOf([finish('f', 'Done.'), imposter])).response).toBe('Done.')
})

test('all texts of a message count, images do not', async () => {
  const content = [
    { type: 'text', text: 'Seven ' },
    { type: 'image', image_urls: ['data:,'] },
    { type: 'text', text: 'files.' },
  ]
  const event = { ...messageEvent('m', 'agent', ''), llm_message: { role: 'assistant', content } }
  expect((await answerOf([event as LogEvent])).response).toBe('Seven files.')
})

test('a long log costs no more than its end', async () => {
  const old = Array.from({ length: 1_000 }, (_, n) => actionEvent({ id: `a${n}` }))
  const finished = await answerOf([...old, finish('f', 'Done.')])
  expect(finished).toEqual({ response: 'Done.', read: 10 })
  const said = await answerOf([...old, messageEvent('m', 'agent', 'Done.')])
  expect(said).toEqual({ response: 'Done.', read: 1 })
  const running = await answerOf([finish('f', 'Done.'), ...old])
  expect(running.response).toBe('Done.')
})
