import { randomUUID } from 'node:crypto'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { brief, Driver, faultsOf, texts } from '../../support/agent-driver.ts'
import { openServer, type TestServer } from '../../support/agent-server.ts'
import { Api, type Event } from '../../support/agent-server-api.ts'
import {
  FarModel,
  type Play,
  type Provider,
  providers,
  refuse,
  type Said,
} from '../../support/mock-provider.ts'

let server: TestServer
let drive: Driver
let far: FarModel
let directory: string
beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-models-')))
  server = await openServer()
  far = await FarModel.open()
  drive = new Driver({ api: new Api(server), server, directory })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await far[Symbol.asyncDispose]()
  await rm(directory, { recursive: true, force: true })
})
beforeEach(() => {
  far.asked.length = 0
  far.plays = []
  far.aside = { text: 'Aside.' }
})

const bash = (command: string): Said => ({ calls: [{ name: 'terminal', arguments: { command } }] })
const finish = (message = 'Done.'): Said => ({ calls: [{ name: 'finish', arguments: { message } }] })
const all = Object.keys(providers) as Provider[]

/** Runs a conversation over plays and answers its events. */
async function run(plays: Play[], options: { provider?: Provider; llm?: object; agent?: object } = {}) {
  far.plays = plays
  const llm = far.llm(options.provider ?? 'compatible', options.llm)
  const { id } = await drive.create({ llm, ...options.agent }, { initial_message: { content: 'Begin.' } })
  return { id, events: await drive.rest(id) }
}

/** Whatever has happened, the next message is answered. */
async function goesOn(id: string): Promise<Event[]> {
  const before = (await drive.events(id)).length
  far.plays = [bash('echo on'), finish('After all.')]
  await drive.say(id, 'Go on.')
  const events = await drive.rest(id)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(events.slice(before).map(brief)).toContain('result:finish')
  expect(faultsOf(events)).toEqual([])
  return events
}

const ending = (events: readonly Event[]) => events.slice(-2).map(brief)

test.each(all)(
  'a run with tools over the %s interface: every call is answered, and what was used is counted',
  async (provider) => {
    const { id, events } = await run(
      [
        { text: 'I look around.', ...bash('echo "six $((2 * 3))"') },
        {
          calls: [
            { name: 'terminal', arguments: { command: 'echo a' } },
            { name: 'think', arguments: { thought: 'b' } },
          ],
        },
        finish('All done.'),
      ],
      { provider },
    )
    expect(events.map(brief)).toEqual([
      'SystemPromptEvent',
      'message:user',
      'execution_status=running',
      'ActionEvent:terminal',
      'result:terminal',
      'ActionEvent:terminal',
      'ActionEvent:think',
      'result:terminal',
      'result:think',
      'ActionEvent:finish',
      'result:finish',
      'execution_status=finished',
    ])
    expect(faultsOf(events)).toEqual([])
    expect(events[3]).toMatchObject({ thought: [{ text: 'I look around.' }] })
    expect(events[5]?.llm_response_id).toBe(events[6]?.llm_response_id)
    expect(texts(events[4])).toContain('six 6')
    // The results reached the model, in its own form.
    expect(JSON.stringify(far.asked[1]?.body)).toContain('six 6')
    expect(far.asked).toHaveLength(3)
    const { metrics } = await drive.info(id)
    expect(metrics).toMatchObject({ accumulated_token_usage: { prompt_tokens: 270, completion_tokens: 30 } })
    await goesOn(id)
  },
)

test.each(all)('an image of a message reaches the model over the %s interface', async (provider) => {
  const png =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  far.plays = [{ text: 'A dot.' }]
  const { id } = await drive.create({ llm: far.llm(provider) })
  await drive.say(id, [
    { type: 'text', text: 'What is this?' },
    { type: 'image', image_urls: [`data:image/png;base64,${png}`] },
  ])
  const events = await drive.rest(id)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(JSON.stringify(far.asked[0]?.body)).toContain(png)
  expect(JSON.stringify(events.find(({ kind }) => kind === 'MessageEvent'))).toContain(png)
})

test.each(all)('a provider that is busy for a moment is asked again (%s)', async (provider) => {
  const busy = refuse(
    429,
    { error: { message: 'Too many requests', type: 'rate_limit_error' } },
    { 'retry-after': '0' },
  )
  const { id, events } = await run([busy, refuse(503, 'upstream'), finish()], { provider })
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(far.asked).toHaveLength(3)
  expect(events.filter(({ kind }) => kind === 'ActionEvent')).toHaveLength(1)
  await goesOn(id)
})

test.each(all)('a provider that fails for good ends the run with its words (%s)', async (provider) => {
  const { id, events } = await run([refuse(500, { error: { message: 'The lights are out.' } })], { provider })
  expect(ending(events)).toEqual([
    'execution_status=error',
    'ConversationErrorEvent:LLMServiceUnavailableError',
  ])
  expect(events.at(-1)?.detail).toContain('The lights are out.')
  expect(far.asked).toHaveLength(3)
  expect((await drive.info(id)).execution_status).toBe('error')
  await goesOn(id)
})

test('a key that is refused is told as such, without the key, and not tried again', async () => {
  const { id, events } = await run([
    refuse(401, { error: { message: 'Incorrect API key provided: sk-far' } }),
  ])
  expect(ending(events)).toEqual(['execution_status=error', 'ConversationErrorEvent:LLMAuthenticationError'])
  expect(JSON.stringify(events)).not.toContain('sk-far')
  expect(far.asked).toHaveLength(1)
  await goesOn(id)
})

test.each(all)(
  'an answer that is cut off leaves nothing half: asked again or an error, and the next message goes on (%s)',
  async (provider) => {
    const cut =
      (chunks: number): Play =>
      (response, asked) =>
        far.say(response, asked, { text: 'Half of a long answer', ...bash('echo never') }, chunks)
    const { id, events } = await run([cut(3), cut(3), cut(3), cut(3)], { provider })
    expect(ending(events)).toEqual([
      'execution_status=error',
      'ConversationErrorEvent:LLMServiceUnavailableError',
    ])
    expect(events.filter(({ kind }) => kind === 'ActionEvent')).toEqual([])
    await goesOn(id)
  },
)

test.each(all)('an answer that is no JSON ends the run (%s)', async (provider) => {
  const garbage: Play = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end('data: {"id": "x", "choices": [{"delta": {"con\n\n')
  }
  const html: Play = (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'text/html' })
    response.end('<html><body>Please log in</body></html>')
  }
  for (const play of [garbage, html]) {
    const { id, events } = await run([play], { provider })
    expect(ending(events)[0]).toBe('execution_status=error')
    expect(ending(events)[1]).toMatch(/^ConversationErrorEvent:LLM\w*Error$/)
    await goesOn(id)
  }
})

test.each(all)(
  'an unknown tool and bad arguments are answered with what is wrong, and the model goes on (%s)',
  async (provider) => {
    const { events } = await run(
      [
        { calls: [{ name: 'no_such_tool', arguments: { a: 1 } }] },
        { calls: [{ name: 'terminal', arguments: { commando: 'x', timeout: 'soon' } }] },
        finish(),
      ],
      { provider },
    )
    expect(events.map(brief).slice(3)).toEqual([
      'ActionEvent:no_such_tool',
      'AgentErrorEvent:no_such_tool',
      'ActionEvent:terminal',
      'AgentErrorEvent:terminal',
      'ActionEvent:finish',
      'result:finish',
      'execution_status=finished',
    ])
    expect(faultsOf(events)).toEqual([])
    expect(events[3]).not.toHaveProperty('action')
    expect(events[3]).toMatchObject({ tool_call: { name: 'no_such_tool' } })
    expect(texts(events[4])).toContain('no_such_tool')
    // Both errors are in the last question, so that the model knows.
    expect(JSON.stringify(far.asked[2]?.body)).toContain('no_such_tool')
  },
)

test.each(['chat', 'compatible', 'anthropic', 'responses'] as const)(
  'arguments that do not parse are kept as they came and answered (%s)',
  async (provider) => {
    const broken = '{"command": "echo \u0001 unfinished'
    const { id, events } = await run([{ calls: [{ name: 'terminal', arguments: broken }] }, finish()], {
      provider,
    })
    expect(events.at(-1)).toMatchObject({ value: 'finished' })
    expect(faultsOf(events)).toEqual([])
    expect(far.asked).toHaveLength(2)
    await goesOn(id)
  },
)

test('an answer that does not come in time is given up, asked again, and told as a timeout', async () => {
  const silent: Play = () => {}
  const stalled: Play = (response, asked) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(': wait\n\n')
    asked.headers.x = 'held'
  }
  const { id, events } = await run([silent, stalled, silent], { llm: { timeout: 0.3, num_retries: 1 } })
  expect(ending(events)).toEqual(['execution_status=error', 'ConversationErrorEvent:LLMTimeoutError'])
  expect(far.asked).toHaveLength(2)
  await goesOn(id)
})

test('an empty answer is asked again; one that stays empty ends in an error', async () => {
  const { events } = await run([{}, {}, finish()])
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  const { id, events: empty } = await run([{}])
  expect(ending(empty)).toEqual(['execution_status=error', 'ConversationErrorEvent:LLMNoResponseError'])
  await goesOn(id)
})

test('a provider that is not there is told as such', async () => {
  const llm = { base_url: 'http://127.0.0.1:9/v1' }
  const { events } = await run([finish()], { llm })
  expect(ending(events)).toEqual([
    'execution_status=error',
    'ConversationErrorEvent:LLMServiceUnavailableError',
  ])
})

const overflows: readonly (readonly [Provider, Play])[] = [
  [
    'chat',
    refuse(400, {
      error: {
        message: "This model's maximum context length is 8192 tokens.",
        type: 'invalid_request_error',
        code: 'context_length_exceeded',
      },
    }),
  ],
  [
    'anthropic',
    refuse(400, {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'prompt is too long: 210000 tokens > 200000 maximum' },
    }),
  ],
  [
    'gemini',
    refuse(400, {
      error: {
        code: 400,
        message: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
        status: 'INVALID_ARGUMENT',
      },
    }),
  ],
]

test.each(overflows)(
  'without a condenser a prompt that is too long ends the run (%s)',
  async (provider, overflow) => {
    const { id, events } = await run([overflow], { provider })
    expect(ending(events)).toEqual([
      'execution_status=error',
      'ConversationErrorEvent:LLMContextWindowExceedError',
    ])
    expect(far.asked).toHaveLength(1)
    await goesOn(id)
  },
)

test.each(overflows)(
  'with a condenser it is made shorter and asked again (%s)',
  async (provider, overflow) => {
    const steps = Array.from({ length: 6 }, (_, n) => bash(`echo step ${n}`))
    far.aside = { text: 'Steps zero to three were done.' }
    const { id, events } = await run([...steps, overflow, finish()], {
      provider,
      agent: { condenser: { kind: 'LLMSummarizingCondenser', max_size: 200, keep_first: 2 } },
    })
    const kinds = events.map(brief)
    expect(kinds.filter((kind) => kind.startsWith('Condensation'))).toEqual([
      'CondensationRequest',
      'Condensation',
    ])
    expect(events.at(-1)).toMatchObject({ value: 'finished' })
    const last = JSON.stringify(far.asked.at(-1)?.body)
    expect(last).toContain('Steps zero to three were done.')
    expect(last).not.toContain('step 0')
    await goesOn(id)
  },
)

test('a prompt that stays too long whatever is forgotten ends in an error instead of going round', async () => {
  const [, overflow] = overflows[0] ?? ['', {}]
  const { id, events } = await run([...Array.from({ length: 6 }, (_, n) => bash(`echo ${n}`)), overflow], {
    provider: 'chat',
    agent: { condenser: { kind: 'LLMSummarizingCondenser', max_size: 200, keep_first: 2 } },
  })
  expect(ending(events)).toEqual([
    'execution_status=error',
    'ConversationErrorEvent:LLMContextWindowExceedError',
  ])
  expect(far.asked.length).toBeLessThan(40)
  await goesOn(id)
})

test('another model answers when the first cannot', async () => {
  const fallback = { ...far.llm('anthropic'), usage_id: 'second' }
  const first: Play = (response, asked) =>
    asked.path.includes('/messages')
      ? far.say(response, asked, finish('From the second.'))
      : response.writeHead(503).end('down')
  const llm = { fallback_strategy: { fallback_llms: [fallback] }, num_retries: 0 }
  const { id, events } = await run([first], { provider: 'chat', llm })
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  const { usage_to_metrics } = (await drive.info(id)).stats as { usage_to_metrics: object }
  expect(Object.keys(usage_to_metrics)).toEqual(['second'])
})

test('a conversation that is interrupted while the provider is silent lets go of the line', async () => {
  let closed = false
  const hang: Play = (response) =>
    response.on('close', () => {
      closed = true
    })
  far.plays = [hang]
  const { id } = await drive.create(
    { llm: far.llm('compatible') },
    { initial_message: { content: 'Begin.' } },
  )
  while (far.asked.length === 0) await new Promise((done) => setTimeout(done, 20))
  await drive.post(id, 'interrupt')
  expect((await drive.rest(id)).map(brief).slice(-2)).toEqual(['execution_status=paused', 'PauseEvent'])
  for (let tries = 0; tries < 200 && !closed; tries++) await new Promise((done) => setTimeout(done, 20))
  expect(closed).toBe(true)
  await goesOn(id)
})

test('a model can be changed from one interface to another in mid-conversation', async () => {
  const { id } = await run([{ text: 'I look.', ...bash('echo one') }, { text: 'One.' }], {
    provider: 'anthropic',
  })
  for (const provider of ['gemini', 'responses', 'chat', 'anthropic'] as const) {
    await drive.post(id, 'switch_llm', { llm: far.llm(provider, { usage_id: provider }) })
    far.plays = [
      { text: `By ${provider}.`, ...bash(`echo ${provider}`) },
      finish(`${provider} ${randomUUID()}`),
    ]
    await drive.say(id, 'More.')
    const events = await drive.rest(id)
    expect([provider, events.at(-1)]).toMatchObject([provider, { value: 'finished' }])
    expect(faultsOf(events)).toEqual([])
  }
})
