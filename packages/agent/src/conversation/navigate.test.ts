import type { EventDraft } from '@slipway/storage'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  ConversationFixtures,
  contentText,
  createLatch,
  FakeModel,
  type TestConversation,
} from './testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

async function idOf(life: TestConversation, isIt: (event: { readonly kind: string }, at: number) => boolean) {
  return (await life.events()).find(isIt)?.id ?? ''
}

/** The texts that the model was asked with last. */
function askedLast(player: FakeModel): string[] {
  return (player.requests.at(-1)?.messages ?? [])
    .filter(({ role }) => role !== 'system')
    .map(({ content }) => contentText(content))
}

test('the model sees the branch and nothing of the others', async () => {
  const player = new FakeModel([{ text: 'One.' }, { text: 'Two.' }, { text: 'Two again.' }])
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('First.')
  const answer = await idOf(life, ({ kind }, at) => kind === 'MessageEvent' && at > 2)
  await life.sendAndWait('Second.')
  await life.conversation.navigate(answer)
  await life.sendAndWait('Third.')
  expect(askedLast(player)).toEqual(['First.', 'One.', 'Third.'])
  await life.conversation.navigate(null)
  await life.sendAndWait('Again.')
  expect(askedLast(player)).toEqual(['Again.'])
  expect(await life.eventsOfKind('SystemPromptEvent')).toHaveLength(2)
  await life.reopen()
  await life.sendAndWait('And on.')
  expect(askedLast(player).slice(0, 1)).toEqual(['Again.'])
})

test('to go to a message and run asks the model about it again', async () => {
  const player = new FakeModel([{ text: 'One.' }, { text: 'Another.' }])
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('First.')
  await life.conversation.navigate(await idOf(life, ({ kind }) => kind === 'MessageEvent'))
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(askedLast(player)).toEqual(['First.'])
  expect(life.status).toBe('finished')
})

test('a call whose result is on another branch is never done again', async () => {
  const player = new FakeModel([{ calls: [['terminal', { command: 'echo once >> count' }]] }])
  const life = await fixtures.create({ model: player.open, agent: { tools: [{ name: 'terminal' }] } })
  await life.sendAndWait('Count.')
  const action = await idOf(life, ({ kind }) => kind === 'ActionEvent')
  for (const go of ['run', 'send'] as const) {
    await life.conversation.navigate(action)
    expect(life.conversation.state.pendingActions()).toHaveLength(1)
    if (go === 'run') await life.conversation.run()
    else await life.send('Well?', { run: true })
    await life.conversation.waitUntilIdle()
    expect(life.conversation.state.pendingActions()).toHaveLength(0)
  }
  expect(await life.eventsOfKind('ObservationEvent')).toHaveLength(1)
  expect((await life.eventsOfKind('AgentErrorEvent')).map(({ error }) => error)).toEqual([
    expect.stringMatching('another branch'),
    expect.stringMatching('another branch'),
  ])
})

test('settings are no matter of a branch: policy and analyzer stay as they were set last', async () => {
  const life = await fixtures.create({ model: new FakeModel([{ text: 'One.' }]).open })
  await life.sendAndWait('First.')
  const end = await idOf(life, ({ kind }) => kind === 'MessageEvent')
  await life.conversation.setPolicy({ kind: 'AlwaysConfirm', deadline_seconds: undefined })
  await life.conversation.navigate(end)
  expect(life.conversation.policy).toMatchObject({ kind: 'AlwaysConfirm' })
  await life.reopen()
  expect(life.conversation.policy).toMatchObject({ kind: 'AlwaysConfirm' })
})

test('what a paused step has still to write goes to its own branch before the leaf is moved', async () => {
  const [requested, go] = [createLatch(), createLatch()]
  const before = async () => {
    requested.open()
    await go.opened
  }
  const life = await fixtures.create({ model: new FakeModel([{ before, text: 'Late.' }]).open })
  await life.send('First.', { run: true })
  await requested.opened
  await expect(life.conversation.navigate(null)).rejects.toMatchObject({ code: 'conflict' })
  await life.conversation.pause()
  const moved = life.conversation.navigate(null)
  go.open()
  await moved
  const events = await life.events()
  expect(events.at(-1)).toMatchObject({ key: 'leaf_event_id' })
  expect(contentText((await life.eventsOfKind('MessageEvent')).at(-1)?.llm_message.content)).toBe('Late.')
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

test('navigating reads the branch in batches, and no other branch', async () => {
  const life = await fixtures.create({ events: filler(1, 1_200) })
  await life.conversation.navigate('f100')
  await fixtures.storage.log.append(life.id, filler(2_000, 3_000))
  await life.reopen()
  life.readPositions.length = 0
  await life.conversation.navigate('f50')
  expect(life.readPositions).toEqual([0])
  life.readPositions.length = 0
  await life.conversation.navigate('f2600')
  const batches = life.readPositions.toSorted((a, b) => a - b)
  expect(batches).toHaveLength(3)
  expect(batches[0]).toBe(0)
  expect(batches.filter((position) => position > 100 && position < 1_201)).toEqual([])
})

test('navigating near the end reads from the newest checkpoint', async () => {
  const life = await fixtures.create({ events: filler(1, 3_000) })
  await life.reopen()
  await fixtures.storage.log.append(life.id, filler(4_000, 100))
  await life.open()
  life.readPositions.length = 0
  await life.conversation.navigate('f4050')
  expect(Math.min(...life.readPositions)).toBeGreaterThanOrEqual(3_000)
  expect(life.conversation.state.view.size).toBe(3_051)
})

test('to go back by a few events reads a few, however long the log is, also after a restart', async () => {
  const life = await fixtures.create()
  for (let round = 0; round < 30; round++) {
    const events = Array.from({ length: 1_000 }, (_, at) => pause(round * 1_000 + at))
    await fixtures.storage.log.append(life.id, events)
    await life.reopen()
  }
  life.readPositions.length = 0
  await life.conversation.navigate('p28500')
  expect(Math.min(...life.readPositions)).toBeGreaterThan(20_000)
  expect(life.conversation.state.leafId).toBe('p28500')
})

test('file rules are shown again on a branch that lacks them', async () => {
  const edit = { calls: [['file_editor', { command: 'create', path: 'a.css', file_text: 'x' }]] as const }
  const life = await fixtures.create({
    model: new FakeModel([edit, { text: 'One.' }, edit]).open,
    agent: {
      tools: [{ name: 'file_editor' }],
      agent_context: {
        skills: [{ name: 'css', content: 'No floats.', trigger: { type: 'path', paths: ['**/*.css'] } }],
      },
    },
  })
  await life.sendAndWait('First.')
  await life.conversation.navigate(null)
  await life.sendAndWait('Again.')
  const results = await life.eventsOfKind('ObservationEvent')
  expect(results.map((result) => JSON.stringify(result).includes('No floats.'))).toEqual([true, true])
})
