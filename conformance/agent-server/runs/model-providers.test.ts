import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { collectTexts, eventLabel, findLogIssues } from '../../support/agent-driver.ts'
import { openAgentFixture } from '../../support/agent-fixture.ts'
import type { ApiEvent } from '../../support/agent-server-api.ts'
import {
  errorReply,
  MockProvider,
  type ModelReply,
  type Provider,
  providers,
  type ScriptedReply,
} from '../../support/mock-provider.ts'

const { driver } = await openAgentFixture()
const mockProvider = await MockProvider.open()
afterAll(async () => await mockProvider[Symbol.asyncDispose]())
beforeEach(() => {
  mockProvider.requests.length = 0
  mockProvider.replies = []
  mockProvider.replyWithoutTools = { text: 'Aside.' }
})

const terminalReply = (command: string): ModelReply => ({
  calls: [{ name: 'terminal', arguments: { command } }],
})
const finishReply = (message = 'Done.'): ModelReply => ({
  calls: [{ name: 'finish', arguments: { message } }],
})
const allProviders = Object.keys(providers) as Provider[]

/** Runs a conversation with these replies and returns its events. */
async function runReplies(
  replies: ScriptedReply[],
  options: { provider?: Provider; llm?: object; agent?: object } = {},
) {
  mockProvider.replies = replies
  const llm = mockProvider.llm(options.provider ?? 'compatible', options.llm)
  const { id } = await driver.create(
    { llm, ...options.agent },
    { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
  )
  return { id, events: await driver.waitUntilIdle(id) }
}

/** Checks that the next message is answered, whatever happened before. */
async function expectNextMessageAnswered(id: string): Promise<ApiEvent[]> {
  const before = (await driver.getEvents(id)).length
  mockProvider.replies = [terminalReply('echo on'), finishReply('After all.')]
  await driver.sendMessage(id, 'Continue.')
  const events = await driver.waitUntilIdle(id)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(events.slice(before).map(eventLabel)).toContain('result:finish')
  expect(findLogIssues(events)).toEqual([])
  return events
}

const lastLabels = (events: readonly ApiEvent[]) => events.slice(-2).map(eventLabel)

test.each(allProviders)(
  'a run with tools over the %s interface: every call has a result, and usage is counted',
  async (provider) => {
    const { id, events } = await runReplies(
      [
        { text: 'I look around.', ...terminalReply('echo "six $((2 * 3))"') },
        {
          calls: [
            { name: 'terminal', arguments: { command: 'echo a' } },
            { name: 'think', arguments: { thought: 'b' } },
          ],
        },
        finishReply('All done.'),
      ],
      { provider },
    )
    expect(events.map(eventLabel)).toEqual([
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
    expect(findLogIssues(events)).toEqual([])
    expect(events[3]).toMatchObject({ thought: [{ text: 'I look around.' }] })
    expect(events[5]?.llm_response_id).toBe(events[6]?.llm_response_id)
    expect(collectTexts(events[4])).toContain('six 6')
    // The results reached the model, in its own form.
    expect(JSON.stringify(mockProvider.requests[1]?.body)).toContain('six 6')
    expect(mockProvider.requests).toHaveLength(3)
    const { metrics } = await driver.getInfo(id)
    expect(metrics).toMatchObject({ accumulated_token_usage: { prompt_tokens: 270, completion_tokens: 30 } })
    await expectNextMessageAnswered(id)
  },
)

test.each(allProviders)('an image of a message reaches the model over the %s interface', async (provider) => {
  const png =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  mockProvider.replies = [{ text: 'A dot.' }]
  const { id } = await driver.create({ llm: mockProvider.llm(provider) })
  await driver.sendMessage(id, [
    { type: 'text', text: 'What is this?' },
    { type: 'image', image_urls: [`data:image/png;base64,${png}`] },
  ])
  const events = await driver.waitUntilIdle(id)
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(JSON.stringify(mockProvider.requests[0]?.body)).toContain(png)
  expect(JSON.stringify(events.find(({ kind }) => kind === 'MessageEvent'))).toContain(png)
})

test.each(allProviders)('a busy provider is retried (%s)', async (provider) => {
  const busy = errorReply(
    429,
    { error: { message: 'Too many requests', type: 'rate_limit_error' } },
    { 'retry-after': '0' },
  )
  const { id, events } = await runReplies([busy, errorReply(503, 'upstream'), finishReply()], { provider })
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  expect(mockProvider.requests).toHaveLength(3)
  expect(events.filter(({ kind }) => kind === 'ActionEvent')).toHaveLength(1)
  await expectNextMessageAnswered(id)
})

test.each(allProviders)(
  'a permanent failure of the provider ends the run with its message (%s)',
  async (provider) => {
    const { id, events } = await runReplies(
      [errorReply(500, { error: { message: 'The lights are out.' } })],
      { provider },
    )
    expect(lastLabels(events)).toEqual([
      'execution_status=error',
      'ConversationErrorEvent:LLMServiceUnavailableError',
    ])
    expect(events.at(-1)?.detail).toContain('The lights are out.')
    expect(mockProvider.requests).toHaveLength(3)
    expect((await driver.getInfo(id)).execution_status).toBe('error')
    await expectNextMessageAnswered(id)
  },
)

test('a refused key is reported without the key, and not retried', async () => {
  const { id, events } = await runReplies([
    errorReply(401, { error: { message: 'Incorrect API key provided: sk-far' } }),
  ])
  expect(lastLabels(events)).toEqual([
    'execution_status=error',
    'ConversationErrorEvent:LLMAuthenticationError',
  ])
  expect(JSON.stringify(events)).not.toContain('sk-far')
  expect(mockProvider.requests).toHaveLength(1)
  await expectNextMessageAnswered(id)
})

test.each(allProviders)(
  'a truncated reply leaves nothing incomplete: it is retried or an error, and the next message works (%s)',
  async (provider) => {
    const cut =
      (chunks: number): ScriptedReply =>
      (response, asked) =>
        mockProvider.sendReply(
          response,
          asked,
          { text: 'Half of a long answer', ...terminalReply('echo never') },
          chunks,
        )
    const { id, events } = await runReplies([cut(3), cut(3), cut(3), cut(3)], { provider })
    expect(lastLabels(events)).toEqual([
      'execution_status=error',
      'ConversationErrorEvent:LLMServiceUnavailableError',
    ])
    expect(events.filter(({ kind }) => kind === 'ActionEvent')).toEqual([])
    await expectNextMessageAnswered(id)
  },
)

test.each(allProviders)('a reply that is not JSON ends the run (%s)', async (provider) => {
  const garbage: ScriptedReply = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end('data: {"id": "x", "choices": [{"delta": {"con\n\n')
  }
  const html: ScriptedReply = (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'text/html' })
    response.end('<html><body>Please log in</body></html>')
  }
  for (const play of [garbage, html]) {
    const { id, events } = await runReplies([play], { provider })
    expect(lastLabels(events)[0]).toBe('execution_status=error')
    expect(lastLabels(events)[1]).toMatch(/^ConversationErrorEvent:LLM\w*Error$/)
    await expectNextMessageAnswered(id)
  }
})

test.each(allProviders)(
  'an unknown tool and invalid arguments are answered with the error, and the model continues (%s)',
  async (provider) => {
    const { events } = await runReplies(
      [
        { calls: [{ name: 'no_such_tool', arguments: { a: 1 } }] },
        { calls: [{ name: 'terminal', arguments: { commando: 'x', timeout: 'soon' } }] },
        finishReply(),
      ],
      { provider },
    )
    expect(events.map(eventLabel).slice(3)).toEqual([
      'ActionEvent:no_such_tool',
      'AgentErrorEvent:no_such_tool',
      'ActionEvent:terminal',
      'AgentErrorEvent:terminal',
      'ActionEvent:finish',
      'result:finish',
      'execution_status=finished',
    ])
    expect(findLogIssues(events)).toEqual([])
    expect(events[3]).not.toHaveProperty('action')
    expect(events[3]).toMatchObject({ tool_call: { name: 'no_such_tool' } })
    expect(collectTexts(events[4])).toContain('no_such_tool')
    // Both errors are in the last request, so the model knows them.
    expect(JSON.stringify(mockProvider.requests[2]?.body)).toContain('no_such_tool')
  },
)

test.each(['chat', 'compatible', 'anthropic', 'responses'] as const)(
  'arguments that do not parse are stored unchanged and answered (%s)',
  async (provider) => {
    const broken = '{"command": "echo \u0001 unfinished'
    const { id, events } = await runReplies(
      [{ calls: [{ name: 'terminal', arguments: broken }] }, finishReply()],
      {
        provider,
      },
    )
    expect(events.at(-1)).toMatchObject({ value: 'finished' })
    expect(findLogIssues(events)).toEqual([])
    expect(mockProvider.requests).toHaveLength(2)
    await expectNextMessageAnswered(id)
  },
)

test('a late reply is aborted, retried, and reported as a timeout', async () => {
  const silent: ScriptedReply = () => {}
  const stalled: ScriptedReply = (response, asked) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(': wait\n\n')
    asked.headers.x = 'held'
  }
  const { id, events } = await runReplies([silent, stalled, silent], {
    llm: { timeout: 0.3, num_retries: 1 },
  })
  expect(lastLabels(events)).toEqual(['execution_status=error', 'ConversationErrorEvent:LLMTimeoutError'])
  expect(mockProvider.requests).toHaveLength(2)
  await expectNextMessageAnswered(id)
})

test('an empty reply is retried; one that stays empty ends in an error', async () => {
  const { events } = await runReplies([{}, {}, finishReply()])
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  const { id, events: empty } = await runReplies([{}])
  expect(lastLabels(empty)).toEqual(['execution_status=error', 'ConversationErrorEvent:LLMNoResponseError'])
  await expectNextMessageAnswered(id)
})

test('an unreachable provider is reported', async () => {
  const llm = { base_url: 'http://127.0.0.1:9/v1' }
  const { events } = await runReplies([finishReply()], { llm })
  expect(lastLabels(events)).toEqual([
    'execution_status=error',
    'ConversationErrorEvent:LLMServiceUnavailableError',
  ])
})

const contextOverflowReplies: readonly (readonly [Provider, ScriptedReply])[] = [
  [
    'chat',
    errorReply(400, {
      error: {
        message: "This model's maximum context length is 8192 tokens.",
        type: 'invalid_request_error',
        code: 'context_length_exceeded',
      },
    }),
  ],
  [
    'anthropic',
    errorReply(400, {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'prompt is too long: 210000 tokens > 200000 maximum' },
    }),
  ],
  [
    'gemini',
    errorReply(400, {
      error: {
        code: 400,
        message: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
        status: 'INVALID_ARGUMENT',
      },
    }),
  ],
]

test.each(contextOverflowReplies)(
  'without a condenser a prompt that is too long ends the run (%s)',
  async (provider, overflow) => {
    const { id, events } = await runReplies([overflow], { provider })
    expect(lastLabels(events)).toEqual([
      'execution_status=error',
      'ConversationErrorEvent:LLMContextWindowExceedError',
    ])
    expect(mockProvider.requests).toHaveLength(1)
    await expectNextMessageAnswered(id)
  },
)

test.each(contextOverflowReplies)(
  'with a condenser the prompt is condensed and sent again (%s)',
  async (provider, overflow) => {
    const steps = Array.from({ length: 6 }, (_, n) => terminalReply(`echo step ${n}`))
    mockProvider.replyWithoutTools = { text: 'Steps zero to three were done.' }
    const { id, events } = await runReplies([...steps, overflow, finishReply()], {
      provider,
      agent: { condenser: { kind: 'LLMSummarizingCondenser', max_size: 200, keep_first: 2 } },
    })
    const kinds = events.map(eventLabel)
    expect(kinds.filter((kind) => kind.startsWith('Condensation'))).toEqual([
      'CondensationRequest',
      'Condensation',
    ])
    expect(events.at(-1)).toMatchObject({ value: 'finished' })
    const last = JSON.stringify(mockProvider.requests.at(-1)?.body)
    expect(last).toContain('Steps zero to three were done.')
    expect(last).not.toContain('step 0')
    await expectNextMessageAnswered(id)
  },
)

test('a prompt that stays too long after condensation ends in an error, not in a loop', async () => {
  const [, overflow] = contextOverflowReplies[0] ?? ['', {}]
  const { id, events } = await runReplies(
    [...Array.from({ length: 6 }, (_, n) => terminalReply(`echo ${n}`)), overflow],
    {
      provider: 'chat',
      agent: { condenser: { kind: 'LLMSummarizingCondenser', max_size: 200, keep_first: 2 } },
    },
  )
  expect(lastLabels(events)).toEqual([
    'execution_status=error',
    'ConversationErrorEvent:LLMContextWindowExceedError',
  ])
  expect(mockProvider.requests.length).toBeLessThan(40)
  await expectNextMessageAnswered(id)
})

test('a fallback model replies when the first one fails', async () => {
  const fallback = { ...mockProvider.llm('anthropic'), usage_id: 'second' }
  const first: ScriptedReply = (response, asked) =>
    asked.path.includes('/messages')
      ? mockProvider.sendReply(response, asked, finishReply('From the second.'))
      : response.writeHead(503).end('down')
  const llm = { fallback_strategy: { fallback_llms: [fallback] }, num_retries: 0 }
  const { id, events } = await runReplies([first], { provider: 'chat', llm })
  expect(events.at(-1)).toMatchObject({ value: 'finished' })
  const { usage_to_metrics } = (await driver.getInfo(id)).stats as { usage_to_metrics: object }
  expect(Object.keys(usage_to_metrics)).toEqual(['second'])
})

test('an interrupt closes the connection to a silent provider', async () => {
  let closed = false
  const hang: ScriptedReply = (response) =>
    response.on('close', () => {
      closed = true
    })
  mockProvider.replies = [hang]
  const { id } = await driver.create(
    { llm: mockProvider.llm('compatible') },
    { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
  )
  while (mockProvider.requests.length === 0) await new Promise((done) => setTimeout(done, 20))
  await driver.post(id, 'interrupt')
  expect((await driver.waitUntilIdle(id)).map(eventLabel).slice(-2)).toEqual([
    'execution_status=paused',
    'PauseEvent',
  ])
  for (let tries = 0; tries < 200 && !closed; tries++) await new Promise((done) => setTimeout(done, 20))
  expect(closed).toBe(true)
  await expectNextMessageAnswered(id)
})

test('a conversation can switch to a model of another interface', async () => {
  const { id } = await runReplies([{ text: 'I look.', ...terminalReply('echo one') }, { text: 'One.' }], {
    provider: 'anthropic',
  })
  for (const provider of ['gemini', 'responses', 'chat', 'anthropic'] as const) {
    await driver.post(id, 'switch_llm', { llm: mockProvider.llm(provider, { usage_id: provider }) })
    mockProvider.replies = [
      { text: `By ${provider}.`, ...terminalReply(`echo ${provider}`) },
      finishReply(`${provider} ${randomUUID()}`),
    ]
    await driver.sendMessage(id, 'More.')
    const events = await driver.waitUntilIdle(id)
    expect([provider, events.at(-1)]).toMatchObject([provider, { value: 'finished' }])
    expect(findLogIssues(events)).toEqual([])
  }
})
