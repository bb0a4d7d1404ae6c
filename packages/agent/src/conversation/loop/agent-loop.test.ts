import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { FailureCode } from '../../llm/model.ts'
import { openModel } from '../../llm/models/open-model.ts'
import { Player, Temporary, type Turn, textOf } from '../testing/fixtures.ts'

let place: Temporary

beforeAll(async () => {
  place = await Temporary.open()
})
afterAll(() => place[Symbol.asyncDispose]())

const agent = { tools: [{ name: 'terminal' }, { name: 'file_editor' }] }
const again = (turn: Turn, count = 40) => Array.from({ length: count }, () => turn)

test('a run takes so many steps and no more: the status, then an error that names the number; the next run counts anew', async () => {
  const thoughts = Array.from({ length: 5 }, (_, n): Turn => ({ calls: [['think', { thought: `${n}` }]] }))
  const player = new Player(thoughts)
  const life = await place.begin({ model: player.open, request: { max_iterations: 3 } })
  await life.say('go')
  expect(player.asked).toHaveLength(3)
  expect((await life.story()).slice(-3)).toEqual([
    'ObservationEvent',
    'execution_status: error',
    'ConversationErrorEvent',
  ])
  const [error] = await life.all('ConversationErrorEvent')
  expect(error).toMatchObject({ code: 'MaxIterationsReached', source: 'environment' })
  expect(error?.detail).toContain('3')
  await life.conversation.run()
  await life.conversation.settled()
  expect(player.asked).toHaveLength(6)
  expect(life.status).toBe('finished')
})

test('a run that finishes with its last step is no error', async () => {
  const life = await place.begin({
    model: new Player([{ calls: [['finish', { message: 'ok' }]] }]).open,
    request: { max_iterations: 1 },
  })
  await life.say('go')
  expect(life.status).toBe('finished')
})

test('the same action with the same result four times in a row is a loop: only the status says so', async () => {
  const player = new Player(again({ calls: [['terminal', { command: 'echo same' }]] }))
  const life = await place.begin({ model: player.open, agent })
  await life.say('go')
  expect(life.status).toBe('stuck')
  expect(player.asked).toHaveLength(4)
  expect((await life.story()).at(-1)).toBe('execution_status: stuck')
  expect(await life.all('ConversationErrorEvent')).toEqual([])
  // Another word of the user is a new beginning.
  await life.send('try something else')
  expect(life.status).toBe('idle')
})

test('to run what is stuck tries again, and is stuck again when it goes on in the same way', async () => {
  const player = new Player(again({ calls: [['terminal', { command: 'echo same' }]] }, 8))
  const life = await place.begin({ model: player.open, agent })
  await life.say('go')
  await life.conversation.run()
  await life.conversation.settled()
  expect(life.status).toBe('stuck')
  expect(player.asked).toHaveLength(8)
})

test('polling is no loop: the same action with another result each time', async () => {
  const turns = again({ calls: [['terminal', { command: 'echo x >> n; wc -l n' }]] }, 8)
  const life = await place.begin({ model: new Player(turns).open, agent })
  await life.say('go')
  expect(life.status).toBe('finished')
})

test('two actions in turn with their results are a loop', async () => {
  const [one, two]: readonly Turn[] = [
    { calls: [['terminal', { command: 'echo one' }]] },
    { calls: [['terminal', { command: 'echo two' }]] },
  ]
  const player = new Player([one, two, one, two, one, two, one, two].flatMap((turn) => turn ?? []))
  const life = await place.begin({ model: player.open, agent })
  await life.say('go')
  expect(life.status).toBe('stuck')
  expect(player.asked).toHaveLength(6)
})

test('the same error three times brings one word of the environment, and once more is a loop', async () => {
  const player = new Player(again({ calls: [['no_such_tool', {}]] }))
  const life = await place.begin({ model: player.open })
  await life.say('go')
  expect(life.status).toBe('stuck')
  expect(player.asked).toHaveLength(4)
  const nudges = (await life.all('MessageEvent')).filter(({ source }) => source === 'environment')
  expect(nudges).toHaveLength(1)
  expect(player.asked[3]?.messages.at(-1)?.role).toBe('user')
  expect(textOf(player.asked[3]?.messages.at(-1)?.content)).toBe(textOf(nudges[0]?.llm_message.content))
})

test('answers without words or calls in a row are a loop', async () => {
  const player = new Player(again({}))
  const life = await place.begin({ model: player.open })
  await life.say('go')
  expect(life.status).toBe('stuck')
  expect(player.asked).toHaveLength(3)
})

test('what is a loop can be said in the request, or that there is none', async () => {
  const turn: Turn = { calls: [['terminal', { command: 'echo same' }]] }
  const patient = new Player(again(turn, 9))
  const life = await place.begin({
    model: patient.open,
    agent,
    request: { stuck_detection_thresholds: { action_observation: 6 } },
  })
  await life.say('go')
  expect([life.status, patient.asked.length]).toEqual(['stuck', 6])
  const free = new Player(again(turn, 9))
  const other = await place.begin({ model: free.open, agent, request: { stuck_detection: false } })
  await other.say('go')
  expect([other.status, free.asked.length]).toEqual(['finished', 10])
})

test('a refusal of the provider is answered by a word as from the user, and three end the run with an error', async () => {
  const refusal: Turn = { text: 'I cannot.', answer: { stop: 'refusal' } }
  const once = new Player([refusal, { text: 'Now I can.' }])
  const life = await place.begin({ model: once.open })
  await life.say('go')
  expect((await life.all('MessageEvent')).map(({ source }) => source)).toEqual([
    'user',
    'agent',
    'user',
    'agent',
  ])
  expect(life.status).toBe('finished')
  const never = new Player(again(refusal))
  const other = await place.begin({ model: never.open })
  await other.say('go')
  expect(never.asked).toHaveLength(3)
  expect((await other.story()).slice(-2)).toEqual(['execution_status: error', 'ConversationErrorEvent'])
  expect((await other.all('ConversationErrorEvent'))[0]?.code).toBe('LLMContentPolicyViolationError')
})

test.each<FailureCode>([
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
  const life = await place.begin({ agent: { llm }, model: openModel })
  await life.say('go')
  expect((await life.story()).slice(-2)).toEqual(['execution_status: error', 'ConversationErrorEvent'])
  const [error] = await life.all('ConversationErrorEvent')
  expect(error?.code).toBe(code)
  expect(error?.detail).toContain('It says so.')
})

test('a message that comes while the model fails does not hide the failure, and is answered by the next run', async () => {
  const player = new Player([{ failure: 'LLMTimeoutError', before: () => life.send('second') }])
  const life = await place.begin({ model: player.open })
  await life.say('first')
  expect(life.status).toBe('error')
  await life.conversation.run()
  await life.conversation.settled()
  expect(textOf(player.asked[1]?.messages.at(-1)?.content)).toBe('second')
  expect(life.status).toBe('finished')
})

test('a finish that is called after a message came does not end the run: the message is answered', async () => {
  const player = new Player([
    { calls: [['finish', { message: 'ok' }]], before: () => life.send('one more thing') },
    { text: 'Done as well.' },
  ])
  const life = await place.begin({ model: player.open })
  await life.say('go')
  expect(player.asked).toHaveLength(2)
  expect(JSON.stringify(player.asked[1]?.messages.at(-1))).toContain('one more thing')
})

test('what fails outside of the steps is an error event too: a workspace that cannot be opened', async () => {
  const life = await place.begin({
    request: { workspace: { working_dir: join(place.directory, 'a-file', 'below') } },
  })
  await writeFile(join(place.directory, 'a-file'), '')
  await life.say('go')
  expect(life.status).toBe('error')
  const [error] = await life.all('ConversationErrorEvent')
  expect(error?.detail).toContain('ENOTDIR')
})

test('a critic judges what would end the run, with the finish itself before its eyes', async () => {
  const life = await place.begin({
    model: new Player([
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
  await life.say('go')
  const judged = (await life.all('ActionEvent')).map(({ tool_name, critic_result }) => [
    tool_name,
    critic_result?.score,
  ])
  expect(judged).toEqual([
    ['think', undefined],
    ['think', undefined],
    ['finish', 1],
  ])
  expect((await life.all('ActionEvent'))[2]?.critic_result).toEqual({ score: 1, message: null })
})

test('a critic of all actions judges each of them', async () => {
  const life = await place.begin({
    model: new Player([{ calls: [['think', { thought: 'hm' }]] }, { text: 'Done.' }]).open,
    agent: { critic: { kind: 'PassCritic', mode: 'all_actions' } },
  })
  await life.say('go')
  expect((await life.all('ActionEvent'))[0]?.critic_result?.score).toBe(1)
  expect((await life.all('MessageEvent'))[1]?.critic_result?.score).toBe(1)
})

test('a critic that is not content sends the agent on, so many times', async () => {
  const player = new Player([
    { calls: [['finish', { message: 'ok' }]] },
    { text: 'Done.' },
    { text: 'Really.' },
  ])
  const life = await place.begin({
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
  await life.say('go')
  const said = await life.all('MessageEvent')
  expect(said.map(({ source }) => source)).toEqual(['user', 'user', 'agent', 'user', 'agent'])
  expect(textOf(said[1]?.llm_message.content)).toContain('Nothing was changed')
  expect(player.asked).toHaveLength(3)
  expect(life.status).toBe('finished')
})
