import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ModelFailureCode } from '../../llm/model.ts'
import { openModel } from '../../llm/models/open-model.ts'
import { ConversationFixtures, contentText, FakeModel, type FakeTurn } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const agent = { tools: [{ name: 'terminal' }, { name: 'file_editor' }] }
const again = (turn: FakeTurn, count = 40) => Array.from({ length: count }, () => turn)

test('a stream that breaks leaves nothing in the log but its use, and listeners are told to forget it', async () => {
  const script = [
    { text: 'One two three.', break_after: 2, usage: { prompt_tokens: 100, completion_tokens: 7 } },
  ]
  const llm = { model: 'scripted/x', stream: true, script }
  const life = await fixtures.create({ model: openModel, agent: { llm } })
  await life.sendAndWait('go')
  expect(life.status).toBe('finished')
  const said = life.updates.flatMap((update) =>
    update.kind === 'delta' ? [update.content] : update.kind === 'reset' ? ['<reset>'] : [],
  )
  expect(said).toEqual(['One ', 'two ', '<reset>', 'One ', 'two ', 'three.'])
  const messages = await life.eventsOfKind('MessageEvent')
  expect(messages.filter(({ source }) => source === 'agent')).toHaveLength(1)
  const { usage_to_metrics } = life.conversation.stats.toJSON()
  expect(usage_to_metrics.default?.accumulated_token_usage).toMatchObject({ prompt_tokens: 200 })
})

test('a text that is cut at the output limit is continued and becomes one message', async () => {
  const cut = (text: string): FakeTurn => ({ text, answer: { stop: 'length' } })
  const player = new FakeModel([cut('First A, '), cut('then B, '), { text: 'then C.' }])
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('go')
  const answers = (await life.eventsOfKind('MessageEvent')).filter(({ source }) => source === 'agent')
  expect(answers.map(({ llm_message }) => contentText(llm_message.content))).toEqual([
    'First A, then B, then C.',
  ])
  expect(life.status).toBe('finished')
  expect(
    player.requests.map(({ messages }) => messages.length - (player.requests[0]?.messages.length ?? 0)),
  ).toEqual([0, 2, 4])
  const { usage_to_metrics } = life.conversation.stats.toJSON()
  expect(usage_to_metrics.default?.accumulated_token_usage).toMatchObject({ prompt_tokens: 30 })
})

test('a reply that its provider pauses continues without a word about a cut', async () => {
  const paused: FakeTurn = { text: 'Searched', answer: { stop: 'length', isPaused: true } }
  const player = new FakeModel([paused, { text: ' and found.' }])
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('go')
  expect(JSON.stringify(player.requests[1]?.messages)).not.toContain('cut off')
  expect(JSON.stringify(await life.eventsOfKind('MessageEvent'))).toContain('Searched and found.')
})

test('a text that never ends is an error with the limit, never a silent end', async () => {
  const player = new FakeModel(again({ text: 'And then ', answer: { stop: 'length' } }))
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('go')
  expect(player.requests).toHaveLength(5)
  expect(life.status).toBe('error')
  const [error] = await life.eventsOfKind('ConversationErrorEvent')
  expect(error).toMatchObject({ code: 'MaxOutputTokensReached' })
})

test('a run stops at its step limit: the status, then an error that names the limit; the next run counts from zero', async () => {
  const thoughts = Array.from(
    { length: 5 },
    (_, n): FakeTurn => ({ calls: [['think', { thought: `${n}` }]] }),
  )
  const player = new FakeModel(thoughts)
  const life = await fixtures.create({ model: player.open, request: { max_iterations: 3 } })
  await life.sendAndWait('go')
  expect(player.requests).toHaveLength(3)
  expect((await life.eventSummary()).slice(-3)).toEqual([
    'ObservationEvent',
    'execution_status: error',
    'ConversationErrorEvent',
  ])
  const [error] = await life.eventsOfKind('ConversationErrorEvent')
  expect(error).toMatchObject({ code: 'MaxIterationsReached', source: 'environment' })
  expect(error?.detail).toContain('3')
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(player.requests).toHaveLength(6)
  expect(life.status).toBe('finished')
})

test('a run that finishes with its last step is no error', async () => {
  const life = await fixtures.create({
    model: new FakeModel([{ calls: [['finish', { message: 'ok' }]] }]).open,
    request: { max_iterations: 1 },
  })
  await life.sendAndWait('go')
  expect(life.status).toBe('finished')
})

test('the same action with the same result four times in a row is a loop: only the status says so', async () => {
  const player = new FakeModel(again({ calls: [['terminal', { command: 'echo same' }]] }))
  const life = await fixtures.create({ model: player.open, agent })
  await life.sendAndWait('go')
  expect(life.status).toBe('stuck')
  expect(player.requests).toHaveLength(4)
  expect((await life.eventSummary()).at(-1)).toBe('execution_status: stuck')
  expect(await life.eventsOfKind('ConversationErrorEvent')).toEqual([])
  // Another word of the user is a new beginning.
  await life.send('try something else')
  expect(life.status).toBe('idle')
})

test('running a stuck conversation tries again, and it is stuck again after the same steps', async () => {
  const player = new FakeModel(again({ calls: [['terminal', { command: 'echo same' }]] }, 8))
  const life = await fixtures.create({ model: player.open, agent })
  await life.sendAndWait('go')
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('stuck')
  expect(player.requests).toHaveLength(8)
})

test('polling is no loop: the same action with another result each time', async () => {
  const turns = again({ calls: [['terminal', { command: 'echo x >> n; wc -l n' }]] }, 8)
  const life = await fixtures.create({ model: new FakeModel(turns).open, agent })
  await life.sendAndWait('go')
  expect(life.status).toBe('finished')
})

test('two actions in turn with their results are a loop', async () => {
  const [one, two]: readonly FakeTurn[] = [
    { calls: [['terminal', { command: 'echo one' }]] },
    { calls: [['terminal', { command: 'echo two' }]] },
  ]
  const player = new FakeModel([one, two, one, two, one, two, one, two].flatMap((turn) => turn ?? []))
  const life = await fixtures.create({ model: player.open, agent })
  await life.sendAndWait('go')
  expect(life.status).toBe('stuck')
  expect(player.requests).toHaveLength(6)
})

test('the same error three times brings one word of the environment, and once more is a loop', async () => {
  const player = new FakeModel(again({ calls: [['no_such_tool', {}]] }))
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('go')
  expect(life.status).toBe('stuck')
  expect(player.requests).toHaveLength(4)
  const nudges = (await life.eventsOfKind('MessageEvent')).filter(({ source }) => source === 'environment')
  expect(nudges).toHaveLength(1)
  expect(player.requests[3]?.messages.at(-1)?.role).toBe('user')
  expect(contentText(player.requests[3]?.messages.at(-1)?.content)).toBe(
    contentText(nudges[0]?.llm_message.content),
  )
})

test('answers without words or calls in a row are a loop', async () => {
  const player = new FakeModel(again({}))
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('go')
  expect(life.status).toBe('stuck')
  expect(player.requests).toHaveLength(3)
})

test('a request can set the thresholds of stuck detection or turn it off', async () => {
  const turn: FakeTurn = { calls: [['terminal', { command: 'echo same' }]] }
  const patient = new FakeModel(again(turn, 9))
  const life = await fixtures.create({
    model: patient.open,
    agent,
    request: { stuck_detection_thresholds: { action_observation: 6 } },
  })
  await life.sendAndWait('go')
  expect([life.status, patient.requests.length]).toEqual(['stuck', 6])
  const free = new FakeModel(again(turn, 9))
  const other = await fixtures.create({ model: free.open, agent, request: { stuck_detection: false } })
  await other.sendAndWait('go')
  expect([other.status, free.requests.length]).toEqual(['finished', 10])
})

test('a refusal of the provider is answered by a word as from the user, and three end the run with an error', async () => {
  const refusal: FakeTurn = { text: 'I cannot.', answer: { stop: 'refusal' } }
  const once = new FakeModel([refusal, { text: 'Now I can.' }])
  const life = await fixtures.create({ model: once.open })
  await life.sendAndWait('go')
  expect((await life.eventsOfKind('MessageEvent')).map(({ source }) => source)).toEqual([
    'user',
    'agent',
    'user',
    'agent',
  ])
  expect(life.status).toBe('finished')
  const never = new FakeModel(again(refusal))
  const other = await fixtures.create({ model: never.open })
  await other.sendAndWait('go')
  expect(never.requests).toHaveLength(3)
  expect((await other.eventSummary()).slice(-2)).toEqual([
    'execution_status: error',
    'ConversationErrorEvent',
  ])
  expect((await other.eventsOfKind('ConversationErrorEvent'))[0]?.code).toBe('LLMContentPolicyViolationError')
})

test.each<ModelFailureCode>([
  'LLMAuthenticationError',
  'LLMRateLimitError',
  'LLMTimeoutError',
  'LLMServiceUnavailableError',
  'LLMBadRequestError',
  'LLMContextWindowExceedError',
  'LLMNoResponseError',
  'LLMMalformedConversationHistoryError',
  'LLMContentPolicyViolationError',
  'LLMError',
])('without a condenser the failure %s of a model is the code of an error', async (code) => {
  const llm = { model: 'scripted/x', num_retries: 0, script: [{ error: { code, detail: 'It says so.' } }] }
  const life = await fixtures.create({ agent: { llm }, model: openModel })
  await life.sendAndWait('go')
  expect((await life.eventSummary()).slice(-2)).toEqual(['execution_status: error', 'ConversationErrorEvent'])
  const [error] = await life.eventsOfKind('ConversationErrorEvent')
  expect(error?.code).toBe(code)
  expect(error?.detail).toContain('It says so.')
})

test('a message that comes while the model fails does not hide the failure, and is answered by the next run', async () => {
  const player = new FakeModel([{ failure: 'LLMTimeoutError', before: () => life.send('second') }])
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('first')
  expect(life.status).toBe('error')
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(contentText(player.requests[1]?.messages.at(-1)?.content)).toBe('second')
  expect(life.status).toBe('finished')
})

test('a finish that is called after a message came does not end the run: the message is answered', async () => {
  const player = new FakeModel([
    { calls: [['finish', { message: 'ok' }]], before: () => life.send('one more thing') },
    { text: 'Done as well.' },
  ])
  const life = await fixtures.create({ model: player.open })
  await life.sendAndWait('go')
  expect(player.requests).toHaveLength(2)
  expect(JSON.stringify(player.requests[1]?.messages.at(-1))).toContain('one more thing')
})

test('what fails outside of the steps is an error event too: a workspace that cannot be opened', async () => {
  const life = await fixtures.create({
    request: { workspace: { working_dir: join(fixtures.directory, 'a-file', 'below') } },
  })
  await writeFile(join(fixtures.directory, 'a-file'), '')
  await life.sendAndWait('go')
  expect(life.status).toBe('error')
  const [error] = await life.eventsOfKind('ConversationErrorEvent')
  expect(error?.detail).toContain('a file is in its place')
})

test('a critic judges what would end the run, with the finish itself before its eyes', async () => {
  const life = await fixtures.create({
    model: new FakeModel([
      { calls: [['think', { thought: 'hm' }]] },
      {
        calls: [
          ['think', { thought: 'well' }],
          ['finish', { message: 'ok' }],
        ],
      },
    ]).open,
    agent: { critic: { kind: 'AgentFinishedCritic' } },
  })
  await life.sendAndWait('go')
  const judged = (await life.eventsOfKind('ActionEvent')).map(({ tool_name, critic_result }) => [
    tool_name,
    critic_result?.score,
  ])
  expect(judged).toEqual([
    ['think', undefined],
    ['think', undefined],
    ['finish', 1],
  ])
  expect((await life.eventsOfKind('ActionEvent'))[2]?.critic_result).toEqual({ score: 1, message: null })
})

test('a critic of all actions judges each of them', async () => {
  const life = await fixtures.create({
    model: new FakeModel([{ calls: [['think', { thought: 'hm' }]] }, { text: 'Done.' }]).open,
    agent: { critic: { kind: 'PassCritic', mode: 'all_actions' } },
  })
  await life.sendAndWait('go')
  expect((await life.eventsOfKind('ActionEvent'))[0]?.critic_result?.score).toBe(1)
  expect((await life.eventsOfKind('MessageEvent'))[1]?.critic_result?.score).toBe(1)
})

test('a low critic score continues the run, up to the limit of refinements', async () => {
  const player = new FakeModel([
    { calls: [['finish', { message: 'ok' }]] },
    { text: 'Done.' },
    { text: 'Really.' },
  ])
  const life = await fixtures.create({
    model: player.open,
    agent: {
      critic: {
        kind: 'EmptyPatchCritic',
        iterative_refinement: { success_threshold: 0.6, max_iterations: 2 },
      },
      tools: [{ name: 'terminal' }],
    },
  })

  execFileSync('git', ['init', '-q'], { cwd: life.workspace })
  await life.sendAndWait('go')
  const messageEvents = await life.eventsOfKind('MessageEvent')
  expect(messageEvents.map(({ source }) => source)).toEqual(['user', 'user', 'agent', 'user', 'agent'])
  expect(contentText(messageEvents[1]?.llm_message.content)).toContain('Nothing was changed')
  expect(player.requests).toHaveLength(3)
  expect(life.status).toBe('finished')
})
