import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { LLMock } from '@copilotkit/aimock'
import { llm, type Message } from '@slipway/protocol'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { BrokenAttempt, ModelDelta, ModelResult, ModelTool } from '../model.ts'
import { openModel } from './open-model.ts'

const rounds = Number(process.env.SLIPWAY_STREAM_FAULTS ?? 100)
const question = 'What is the weather?'
const content = 'I look at Kiel and at Osló first; it is grey there — so far.'
const reasoning = 'The user wants two towns. I call the tool twice.'

/** Records the streams of each interface. */
const mock = new LLMock({ port: 0, host: '127.0.0.1', latency: 0 })
const wires = ['chat', 'responses', 'compatible', 'anthropic', 'google', 'azure', 'bedrock'] as const
type Wire = (typeof wires)[number]

function settings(wire: Wire, url: string): Record<string, unknown> {
  switch (wire) {
    case 'chat':
      return { model: 'openai/gpt-4o', base_url: `${url}/v1` }
    case 'responses':
      return { model: 'openai/gpt-5', base_url: `${url}/v1`, api_mode: 'responses' }
    case 'compatible':
      return { model: 'openai-compatible/qwen', base_url: `${url}/v1` }
    case 'anthropic':
      return { model: 'anthropic/claude-sonnet-4-5', base_url: url }
    case 'google':
      return { model: 'gemini/gemini-2.5-pro', base_url: url }
    case 'azure':
      return { model: 'azure/gpt-4o', base_url: url }
    case 'bedrock':
      return { model: 'bedrock/anthropic.claude-sonnet-4-5', base_url: url }
  }
}

interface Recording {
  readonly contentType: string
  readonly bytes: Buffer
}

const kinds = ['close', 'reset', 'silence', 'error'] as const
type FaultKind = (typeof kinds)[number]

/** The far side: breaks the first streams as planned, then plays the whole one. */
let server: Server
let url: string
let recording: Recording
let faults: { readonly at: number; readonly kind: FaultKind; readonly wire: Wire }[] = []
const silent = new Set<ServerResponse>()
const recordings = new Map<Wire, Recording>()

beforeAll(async () => {
  await mock.start()
  const weather = (town: string, id: string) => ({
    name: 'weather',
    arguments: JSON.stringify({ town }),
    id,
  })
  mock.onMessage(question, {
    content,
    reasoning,
    toolCalls: [weather('Kiel', 'call_one_1234'), weather('Osló', 'call_two_1234')],
  })
  for (const wire of wires) recordings.set(wire, await record(wire))
  server = createServer((request, response) => {
    request.resume()
    request.once('end', () => play(response))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on a port
}, 60_000)
afterEach(() => {
  for (const response of silent) response.destroy()
  silent.clear()
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((done) => server.close(done))
  await mock.stop()
})

async function record(wire: Wire): Promise<Recording> {
  let recorded: Recording | undefined
  const model = openModel(llm.parse({ ...settings(wire, mock.url), api_key: 'sk-secret-key' }), {
    fetch: async (input, init) => {
      const response = await fetch(input, init)
      const bytes = Buffer.from(await response.arrayBuffer())
      recorded = { bytes, contentType: response.headers.get('content-type') ?? '' }
      return new Response(bytes, response)
    },
  })
  expect(
    await model.generate({ messages: [user(question)], tools }, new AbortController().signal),
  ).toMatchObject({ kind: 'reply' })
  if (recorded === undefined) throw new Error('nothing was recorded')
  return recorded
}

function play(response: ServerResponse): void {
  const { bytes, contentType } = recording
  const fault = faults.shift()
  response.writeHead(200, { 'content-type': contentType })
  response.flushHeaders()
  if (fault === undefined) {
    response.end(bytes)
    return
  }
  const part = bytes.subarray(0, fault.at)
  if (part.length > 0) response.write(part)
  switch (fault.kind) {
    case 'close':
      response.end()
      break
    case 'reset':
      setImmediate(() => response.destroy())
      break
    case 'silence':
      silent.add(response)
      break
    case 'error':
      response.end(errorEvent(fault.wire))
      break
  }
}

/** An overload inside the stream, where the interface has a form for it; else the connection closes. */
function errorEvent(wire: Wire): string {
  const error = { code: 'overloaded_error', message: 'Overloaded' }
  if (wire === 'bedrock') return ''
  const event = wire === 'anthropic' || wire === 'responses' ? 'event: error\n' : ''
  const data =
    wire === 'responses'
      ? { type: 'error', sequence_number: 1, ...error }
      : { type: 'error', error: { ...error, type: 'overloaded_error' } }
  return `\n\n${event}data: ${JSON.stringify(wire === 'anthropic' || wire === 'responses' ? data : { error })}\n\n`
}

const tools: readonly ModelTool[] = [
  {
    name: 'weather',
    description: 'Weather of a town',
    parameters: { type: 'object', properties: { town: { type: 'string' } } },
  },
]

function user(text: string): Message {
  return { role: 'user', content: [{ type: 'text', text, cache_prompt: false }], thinking_blocks: [] }
}

interface Heard {
  readonly result: ModelResult
  /** The deltas since the last reset. */
  readonly text: string
  readonly reasoning: string
  readonly resets: readonly BrokenAttempt[]
}

async function respond(wire: Wire, more: Record<string, unknown> = {}): Promise<Heard> {
  const deltas: ModelDelta[] = []
  const resets: BrokenAttempt[] = []
  const model = openModel(
    llm.parse({
      ...settings(wire, url),
      api_key: 'sk-secret-key',
      num_retries: 4,
      timeout: 30,
      stream_stall_timeout: 30,
      ...more,
    }),
    { sleep: async () => undefined },
  )
  const result = await model.generate(
    {
      messages: [user(question)],
      tools,
      onDelta: (delta) => void deltas.push(delta),
      onReset: (attempt) => {
        resets.push(attempt)
        deltas.length = 0
      },
    },
    new AbortController().signal,
  )
  const joined = (member: keyof ModelDelta) => deltas.map((delta) => delta[member] ?? '').join('')
  return { result, text: joined('content'), reasoning: joined('reasoning_content'), resets }
}

function replyOf({ result }: Heard) {
  if (result.kind !== 'reply') throw new Error(`no reply: ${JSON.stringify(result)}`)
  const { content: parts, tool_calls, reasoning_content } = result.message
  return {
    stop: result.stop,
    texts: parts,
    calls: (tool_calls ?? []).map(({ name, arguments: args }) => ({ name, args })),
    reasoning_content,
  }
}

test.each(wires)(
  '%s: a stream that breaks after any byte is asked again, nothing is heard twice',
  async (wire) => {
    const recorded = recordings.get(wire)
    if (recorded === undefined) throw new Error('not recorded')
    recording = recorded
    faults = []
    const whole = await respond(wire)
    expect(whole.resets).toEqual([])
    expect(whole.text).toBe(content)
    expect(replyOf(whole)).toMatchObject({ stop: 'tool_calls', calls: { length: 2 } })
    const at = fc.oneof(
      { weight: 1, arbitrary: fc.constantFrom(0, 1, recorded.bytes.length - 1) },
      { weight: 8, arbitrary: fc.nat({ max: recorded.bytes.length - 1 }) },
    )
    const fault = fc.record({ at, kind: fc.constantFrom(...kinds), wire: fc.constant(wire) })
    await fc.assert(
      fc.asyncProperty(fc.array(fault, { minLength: 1, maxLength: 2 }), async (planned) => {
        faults = [...planned]
        const isSilent = planned.some(({ kind }) => kind === 'silence')
        const heard = await respond(
          wire,
          isSilent ? { timeout: 0.3, stream_stall_timeout: 0.3, num_retries: 200 } : {},
        )
        expect(replyOf(heard)).toEqual(replyOf(whole))
        expect(heard.text).toBe(whole.text)
        expect(heard.reasoning).toBe(whole.reasoning)
        // A slow machine may be silent for as long as a fault is.
        if (!isSilent) expect(heard.resets.length).toBeLessThanOrEqual(planned.length)
        for (const { usage } of heard.resets) expect(usage.prompt_tokens).toBeGreaterThan(0)
      }),
      { numRuns: Math.ceil(rounds / wires.length) },
    )
  },
  600_000,
)

test('what a broken attempt used is with the reply, and with the failure when all attempts break', async () => {
  recording = recordings.get('anthropic') ?? recording
  const at = recording.bytes.indexOf('input_json_delta') + 60
  faults = [{ at, kind: 'reset', wire: 'anthropic' }]
  const heard = await respond('anthropic')
  expect(heard.result).toMatchObject({
    kind: 'reply',
    brokenAttempts: [{ usage: { model: expect.any(String) } }],
  })
  expect(heard.resets[0]?.usage.completion_tokens).toBeGreaterThan(5)
  faults = Array.from({ length: 3 }, () => ({ at, kind: 'close', wire: 'anthropic' }))
  const failed = await respond('anthropic', { num_retries: 2 })
  expect(failed.result).toMatchObject({ kind: 'failure', brokenAttempts: { length: 3 } })
  expect(failed.text).toBe('')
})

test('a stream that breaks at every retry goes to the fallback', async () => {
  recording = recordings.get('compatible') ?? recording
  const at = Math.floor(recording.bytes.length / 2)
  faults = Array.from({ length: 2 }, () => ({ at, kind: 'reset', wire: 'compatible' }))
  const fallback = { ...settings('compatible', url), model: 'openai-compatible/second', api_key: 'k' }
  const heard = await respond('compatible', {
    num_retries: 1,
    fallback_strategy: { fallback_llms: [fallback] },
  })
  expect(heard.result).toMatchObject({
    kind: 'reply',
    model: 'openai-compatible/second',
    brokenAttempts: { length: 2 },
  })
  expect(heard.text).toBe(content)
})

test('silence in the middle of a reply ends after its own limit, and silence before it does not', async () => {
  recording = recordings.get('chat') ?? recording
  faults = [
    {
      at: recording.bytes.indexOf('data:', recording.bytes.indexOf('Kiel')) + 5,
      kind: 'silence',
      wire: 'chat',
    },
  ]
  const heard = await respond('chat', { timeout: null, stream_stall_timeout: 0.5, num_retries: 50 })
  expect(heard.result).toMatchObject({ kind: 'reply', brokenAttempts: expect.any(Array) })
  expect(heard.text).toBe(content)
})
