import type { EventDraft } from '@slipway/storage'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { gate, type Life, Player, Temporary, textOf } from './testing/fixtures.ts'

let place: Temporary

beforeAll(async () => {
  place = await Temporary.open()
})
afterAll(() => place[Symbol.asyncDispose]())

async function idOf(life: Life, isIt: (event: { readonly kind: string }, at: number) => boolean) {
  return (await life.events()).find(isIt)?.id ?? ''
}

/** The texts that the model was asked with last. */
function askedLast(player: Player): string[] {
  return (player.asked.at(-1)?.messages ?? [])
    .filter(({ role }) => role !== 'system')
    .map(({ content }) => textOf(content))
}

test('the model sees the branch and nothing of the others', async () => {
  const player = new Player([{ text: 'One.' }, { text: 'Two.' }, { text: 'Two again.' }])
  const life = await place.begin({ model: player.open })
  await life.say('First.')
  const answer = await idOf(life, ({ kind }, at) => kind === 'MessageEvent' && at > 2)
  await life.say('Second.')
  await life.conversation.navigate(answer)
  await life.say('Third.')
  expect(askedLast(player)).toEqual(['First.', 'One.', 'Third.'])
  await life.conversation.navigate(null)
  await life.say('Anew.')
  expect(askedLast(player)).toEqual(['Anew.'])
  expect(await life.all('SystemPromptEvent')).toHaveLength(2)
  await life.reopen()
  await life.say('And on.')
  expect(askedLast(player).slice(0, 1)).toEqual(['Anew.'])
})

test('to go to a message and run asks the model about it again', async () => {
  const player = new Player([{ text: 'One.' }, { text: 'Another.' }])
  const life = await place.begin({ model: player.open })
  await life.say('First.')
  await life.conversation.navigate(await idOf(life, ({ kind }) => kind === 'MessageEvent'))
  await life.conversation.run()
  await life.conversation.settled()
  expect(askedLast(player)).toEqual(['First.'])
  expect(life.status).toBe('finished')
})

test('a call whose result is on another branch is never done again', async () => {
  const player = new Player([{ calls: [['terminal', { command: 'echo once >> count' }]] }])
  const life = await place.begin({ model: player.open, agent: { tools: [{ name: 'terminal' }] } })
  await life.say('Count.')
  const action = await idOf(life, ({ kind }) => kind === 'ActionEvent')
  for (const go of ['run', 'send'] as const) {
    await life.conversation.navigate(action)
    expect(life.conversation.state.unanswered()).toHaveLength(1)
    if (go === 'run') await life.conversation.run()
    else await life.send('Well?', { run: true })
    await life.conversation.settled()
    expect(life.conversation.state.unanswered()).toHaveLength(0)
  }
  expect(await life.all('ObservationEvent')).toHaveLength(1)
  expect((await life.all('AgentErrorEvent')).map(({ error }) => error)).toEqual([
    expect.stringMatching('another branch'),
    expect.stringMatching('another branch'),
  ])
})

test('settings are no matter of a branch: policy and analyzer stay as they were set last', async () => {
  const life = await place.begin({ model: new Player([{ text: 'One.' }]).open })
  await life.say('First.')
  const end = await idOf(life, ({ kind }) => kind === 'MessageEvent')
  await life.conversation.setPolicy({ kind: 'AlwaysConfirm', deadline_seconds: undefined })
  await life.conversation.navigate(end)
  expect(life.conversation.policy).toMatchObject({ kind: 'AlwaysConfirm' })
  await life.reopen()
  expect(life.conversation.policy).toMatchObject({ kind: 'AlwaysConfirm' })
})

test('what a paused step has still to write goes to its own branch before the leaf is moved', async () => {
  const [asked, go] = [gate(), gate()]
  const before = async () => {
    asked.open()
    await go.opened
  }
  const life = await place.begin({ model: new Player([{ before, text: 'Late.' }]).open })
  await life.send('First.', { run: true })
  await asked.opened
  await expect(life.conversation.navigate(null)).rejects.toMatchObject({ code: 'conflict' })
  await life.conversation.pause()
  const moved = life.conversation.navigate(null)
  go.open()
  await moved
  const events = await life.events()
  expect(events.at(-1)).toMatchObject({ key: 'leaf_event_id' })
  expect(textOf((await life.all('MessageEvent')).at(-1)?.llm_message.content)).toBe('Late.')
  expect(life.conversation.state.view.size).toBe(0)
})

const filler = (from: number, count: number): EventDraft[] =>
  Array.from({ length: count }, (_, i) => ({
    id: `f${from + i}`,
    kind: 'MessageEvent',
    source: 'environment',
    llm_message: { role: 'user', content: [] },
  }))

const pause = (at: number): EventDraft => ({ id: `p${at}`, kind: 'PauseEvent', source: 'user' })

test('to go elsewhere reads the branch in batches, and nothing of what lies beside it', async () => {
  const life = await place.begin({ events: filler(1, 1_200) })
  await life.conversation.navigate('f100')
  await place.storage.log.append(life.id, filler(2_000, 3_000))
  await life.reopen()
  life.reads.length = 0
  await life.conversation.navigate('f50')
  expect(life.reads).toEqual([0])
  life.reads.length = 0
  await life.conversation.navigate('f2600')
  const batches = life.reads.toSorted((a, b) => a - b)
  expect(batches).toHaveLength(3)
  expect(batches[0]).toBe(0)
  expect(batches.filter((position) => position > 100 && position < 1_201)).toEqual([])
})

test('to go on from near the end reads on from what was saved', async () => {
  const life = await place.begin({ events: filler(1, 3_000) })
  await life.reopen()
  await place.storage.log.append(life.id, filler(4_000, 100))
  await life.open()
  life.reads.length = 0
  await life.conversation.navigate('f4050')
  expect(Math.min(...life.reads)).toBeGreaterThanOrEqual(3_000)
  expect(life.conversation.state.view.size).toBe(3_051)
})

test('to go back by a few events reads a few, however long the log is, also after a restart', async () => {
  const life = await place.begin()
  for (let round = 0; round < 30; round++) {
    const events = Array.from({ length: 1_000 }, (_, at) => pause(round * 1_000 + at))
    await place.storage.log.append(life.id, events)
    await life.reopen()
  }
  life.reads.length = 0
  await life.conversation.navigate('p28500')
  expect(Math.min(...life.reads)).toBeGreaterThan(20_000)
  expect(life.conversation.state.leafId).toBe('p28500')
})

test('rules for a file are told again on a branch that has not been told of them', async () => {
  const edit = { calls: [['file_editor', { command: 'create', path: 'a.css', file_text: 'x' }]] as const }
  const life = await place.begin({
    model: new Player([edit, { text: 'One.' }, edit]).open,
    agent: {
      tools: [{ name: 'file_editor' }],
      agent_context: {
        skills: [{ name: 'css', content: 'No floats.', trigger: { type: 'path', paths: ['**/*.css'] } }],
      },
    },
  })
  await life.say('First.')
  await life.conversation.navigate(null)
  await life.say('Again.')
  const results = await life.all('ObservationEvent')
  expect(results.map((result) => JSON.stringify(result).includes('No floats.'))).toEqual([true, true])
})
