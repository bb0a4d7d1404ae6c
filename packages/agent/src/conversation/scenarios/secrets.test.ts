import { createServer } from 'node:http'
import { must, validateEvent } from '@slipway/protocol'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Secrets, secretPlaceholder } from '../../secrets/secrets.ts'
import { redactEvent } from '../events/redact-event.ts'
import { ConversationFixtures, contentText, FakeModel, waitUntil } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures

beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const value = 'hunter22-and-more'
const key = '-----BEGIN KEY-----\nabc"def\n-----END KEY-----'
const agent = { tools: [{ name: 'terminal' }, { name: 'write_file' }] }
const request = { secrets: { PASSWORD: value, DEPLOY_KEY: key } }

test('a value is in no event, whoever writes it: the user, the model, a tool, its arguments, an error, a hook, a caller', async () => {
  const player = new FakeModel([
    {
      text: `I know ${value}.`,
      calls: [
        ['terminal', { command: 'echo "pass: $PASSWORD" && echo "$DEPLOY_KEY"', summary: `Prints ${value}` }],
        ['terminal', { command: `true ${'x'.repeat(90)} ${value} && true '${key}'` }],
        ['terminal', { no_such_argument: value }],
        ['no_such_tool', `{"a": "${value}`],
        ['write_file', { file_path: 'notes.txt', content: `${value}\n${key}` }],
      ],
      message: { reasoning_content: `Thinking of ${value}.` },
      answer: {
        completionLog: {
          filename: 'a.json',
          data: JSON.stringify({ arguments: JSON.stringify({ key, value }) }),
        },
        stop: 'tool_calls',
      },
    },
    { calls: [['terminal', { command: 'echo hook' }]] },
    { failure: 'LLMBadRequestError', detail: `The key ${value} is wrong.` },
  ])
  const life = await fixtures.create({
    model: player.open,
    agent,
    request: {
      ...request,
      hook_config: {
        pre_tool_use: [
          {
            matcher: 'terminal',
            hooks: [{ command: `grep -q "echo hook" && { echo ${value} >&2; exit 2; }; exit 0` }],
          },
        ],
      },
    },
  })
  await life.send(`The password is ${value} and the key ${key}.`, { sender: `me ${value}`, run: true })
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('error')
  await life.conversation.addSecrets({
    LATE: { kind: 'StaticSecret', value: 'late-value', description: undefined },
  })
  await life.sendAndWait('It was late-value.')
  const events = await life.events()
  const log = JSON.stringify(events)
  for (const secret of [value, 'abc\\"def', 'abc\\\\\\"def', 'BEGIN KEY', 'hunter22', 'late-value'])
    expect(log).not.toContain(secret)
  for (const event of events) expect(validateEvent(event)).toEqual([])
  const [first] = await life.eventsOfKind('ObservationEvent')
  expect(contentText(first?.observation.content)).toContain(`pass: ${secretPlaceholder}`)
  expect((await life.eventsOfKind('UserRejectObservation'))[0]?.rejection_reason).toBe(secretPlaceholder)
  expect((await life.eventsOfKind('ConversationErrorEvent'))[0]?.detail).toBe(
    `The key ${secretPlaceholder} is wrong.`,
  )
  const [, second] = await life.eventsOfKind('ActionEvent')
  expect(JSON.parse(must(second, 'an action').tool_call.arguments).command).toContain(
    `true '${secretPlaceholder}'`,
  )
  // Nor is it told to a model again.
  expect(JSON.stringify(player.requests.slice(1).map(({ messages }) => messages))).not.toContain('hunter22')
})

test('a value in the pieces of an answer is hidden however it is cut, in words and in thoughts', async () => {
  const pieces = [...'It is hunter22-and-more, I say.']
  const player = new FakeModel([
    {
      text: pieces.join(''),
      deltas: [
        ...pieces.map((reasoning_content) => ({ reasoning_content })),
        ...pieces.map((content) => ({ content })),
      ],
    },
  ])
  const life = await fixtures.create({ model: player.open, request })
  await life.sendAndWait('go')
  const deltas = life.updates.filter((update) => update.kind === 'delta')
  const said = deltas.map((update) => update.content ?? '').join('')
  const thought = deltas.map((update) => update.reasoning_content ?? '').join('')
  expect(said).toBe(`It is ${secretPlaceholder}, I say.`)
  expect(thought).toBe(`It is ${secretPlaceholder}, I say.`)
  // Thoughts come before words, as they were given.
  const firstWord = deltas.findIndex((update) => update.content !== undefined)
  expect(deltas.slice(firstWord).every((update) => update.reasoning_content === undefined)).toBe(true)
})

test('a question beside the conversation and its answer hold no value, and neither does the title', async () => {
  const long = `please ${'x'.repeat(30)} ${value}`
  const player = new FakeModel([], { sides: [{ failure: 'LLMTimeoutError' }, { text: `It is ${value}.` }] })
  const life = await fixtures.create({ model: player.open, request: { ...request, autotitle: true } })
  await life.send(long)
  await waitUntil(() => life.titles.length === 1)
  expect(life.titles[0]).not.toContain('hunter')
  const answer = await life.conversation.askSideQuestion(`Is it ${value}?`, new AbortController().signal)
  expect(answer).toBe(`It is ${secretPlaceholder}.`)
  expect(JSON.stringify(player.sideRequests)).not.toContain('hunter')
})

test('a looked-up secret is redacted from the first step on and fetched once', async () => {
  let count = 0
  const server = createServer((_, response) => {
    count++
    response.end('looked-up-value')
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const life = await fixtures.create({
    model: new FakeModel([{ calls: [['terminal', { command: 'echo looked-up-value' }]] }]).open,
    agent,
    request: {
      secrets: { TOKEN: { url: `http://127.0.0.1:${port}/`, headers: { 'x-key': 'header-9876' } } },
    },
  })
  await life.sendAndWait('go')
  expect(JSON.stringify(await life.events())).not.toContain('looked-up-value')
  expect(JSON.stringify(await life.events())).not.toContain('header-9876')
  expect(count).toBe(1)
  server.closeAllConnections()
  await new Promise((done) => server.close(done))
})

test('a secret that is a common word spoils no event: the conversation runs as if there were none', async () => {
  const words = [
    'user',
    'text',
    'Event',
    'running',
    'agent',
    'think',
    'finished',
    'Message',
    'terminal',
    'call',
    'HIGH',
    '0000',
  ]
  const story = async (secrets: Readonly<Record<string, string>>) => {
    const player = new FakeModel([
      {
        calls: [
          ['think', { thought: 'of the user' }],
          ['terminal', { command: 'true' }],
        ],
      },
      { calls: [['finish', { message: 'running text' }]] },
    ])
    const life = await fixtures.create({
      model: player.open,
      agent,
      request: { secrets, confirmation_policy: { kind: 'ConfirmRisky', threshold: 'HIGH' } },
    })
    await life.sendAndWait('text of the user')
    await life.conversation.setPolicy({
      kind: 'ConfirmRisky',
      threshold: 'HIGH',
      confirm_unknown: false,
      deadline_seconds: undefined,
    })
    await life.reopen({ store: { snapshot: null } })
    await life.conversation.run()
    await life.conversation.waitUntilIdle()
    for (const event of await life.events()) expect(validateEvent(event)).toEqual([])
    expect(life.status).toBe('finished')
    expect(life.conversation.policy).toMatchObject({ threshold: 'HIGH' })
    return { story: await life.eventSummary(), events: await life.events() }
  }
  const plain = await story({})
  const spoilt = await story(Object.fromEntries(words.map((word, index) => [`S${index}`, word])))
  expect(spoilt.story).toEqual(plain.story)
  const message = spoilt.events.find(({ kind }) => kind === 'MessageEvent')
  expect(JSON.stringify(message)).toContain(`"${secretPlaceholder} of the ${secretPlaceholder}"`)
})

test('what events are found by stays as it is when ids hold the digits of a secret', () => {
  const secrets = new Secrets({ PIN: { kind: 'StaticSecret', value: '1234', description: undefined } })
  fc.assert(
    fc.property(fc.constantFrom('a1234', '1234', '12341234-b'), fc.string(), (id, text) => {
      const draft = {
        kind: 'ActionEvent',
        source: 'agent',
        id,
        action_id: id,
        tool_call_id: id,
        llm_response_id: id,
        forgotten_event_ids: [id],
        tool_call: { id, name: 'terminal', arguments: `{"a":"1234"}`, origin: 'completion' },
        thinking_blocks: [
          { type: 'thinking', thinking: `1234 ${text}`, signature: id },
          { type: 'redacted_thinking', data: id },
        ],
        action: { kind: 'MCPToolAction', data: { id: '1234', type: '1234', key: ['1234'] } },
      }
      const masked = redactEvent(draft, secrets)
      expect(masked).toMatchObject({
        id,
        action_id: id,
        tool_call_id: id,
        llm_response_id: id,
        forgotten_event_ids: [id],
        tool_call: { id, name: 'terminal', arguments: `{"a":"${secretPlaceholder}"}` },
        thinking_blocks: [
          { type: 'thinking', signature: id },
          { type: 'redacted_thinking', data: id },
        ],
        action: {
          kind: 'MCPToolAction',
          data: { id: secretPlaceholder, type: secretPlaceholder, key: [secretPlaceholder] },
        },
      })
      expect(JSON.stringify(masked.thinking_blocks)).toContain(secretPlaceholder)
    }),
  )
})

test('the values of secrets reach a command that names them and no other', async () => {
  const player = new FakeModel([
    { calls: [['terminal', { command: '[ "$PASSWORD" = "hunter22""-and-more" ] && echo known' }]] },
    { calls: [['terminal', { command: 'env | grep -c DEPLOY' }]] },
  ])
  const life = await fixtures.create({ model: player.open, agent, request })
  await life.sendAndWait('go')
  const results = await life.eventsOfKind('ObservationEvent')
  expect(contentText(results[0]?.observation.content)).toContain('known')
  expect(results[1]?.observation).toMatchObject({ exit_code: 1 })
})
