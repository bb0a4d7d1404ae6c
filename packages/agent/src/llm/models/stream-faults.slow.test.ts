import { llm, type Message } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { BrokenAttempt, ModelDelta, ModelResult } from '../model.ts'
import {
  BrokenProvider,
  content,
  faultKinds,
  question,
  thinkTool,
  type Wire,
  wireSettings,
  wires,
} from '../testing/broken-provider.ts'
import { openModel } from './open-model.ts'

const rounds = Number(process.env.SLIPWAY_STREAM_FAULTS ?? 100)

let provider: BrokenProvider
beforeAll(async () => {
  provider = await BrokenProvider.open(openModel)
}, 120_000)
afterEach(() => provider.endSilent())
afterAll(() => provider[Symbol.asyncDispose]())

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
      ...wireSettings(wire, provider.url),
      api_key: 'sk-secret-key',
      num_retries: 4,
      timeout: 30,
      stream_stall_timeout: 30,
      ...more,
    }),
    { clock: { ...systemClock, sleep: async () => undefined } },
  )
  const result = await model.generate(
    {
      messages: [user(question)],
      tools: [thinkTool],
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
    provider.restart(wire, [])
    const recorded = provider.recording()
    const whole = await respond(wire)
    expect(whole.resets).toEqual([])
    expect(whole.text).toBe(content)
    expect(replyOf(whole)).toMatchObject({ stop: 'tool_calls', calls: { length: 2 } })
    const at = fc.oneof(
      { weight: 1, arbitrary: fc.constantFrom(0, 1, recorded.bytes.length - 1) },
      { weight: 8, arbitrary: fc.nat({ max: recorded.bytes.length - 1 }) },
    )
    const fault = fc.record({ at, kind: fc.constantFrom(...faultKinds) })
    await fc.assert(
      fc.asyncProperty(fc.array(fault, { minLength: 1, maxLength: 2 }), async (planned) => {
        provider.restart(wire, planned)
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
  provider.restart('anthropic', [])
  const at = provider.recording().bytes.indexOf('input_json_delta') + 60
  provider.restart('anthropic', [{ at, kind: 'reset' }])
  const heard = await respond('anthropic')
  expect(heard.result).toMatchObject({
    kind: 'reply',
    brokenAttempts: [{ usage: { model: expect.any(String) } }],
  })
  expect(heard.resets[0]?.usage.completion_tokens).toBeGreaterThan(5)
  provider.restart(
    'anthropic',
    Array.from({ length: 3 }, () => ({ at, kind: 'close' })),
  )
  const failed = await respond('anthropic', { num_retries: 2 })
  expect(failed.result).toMatchObject({ kind: 'failure', brokenAttempts: { length: 3 } })
  expect(failed.text).toBe('')
})

test('a stream that breaks at every retry goes to the fallback', async () => {
  provider.restart('compatible', [])
  const at = Math.floor(provider.recording().bytes.length / 2)
  provider.faults = Array.from({ length: 2 }, () => ({ at, kind: 'reset' }))
  const fallback = {
    ...wireSettings('compatible', provider.url),
    model: 'openai-compatible/second',
    api_key: 'k',
  }
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
  provider.restart('chat', [])
  const { bytes } = provider.recording()
  provider.faults = [{ at: bytes.indexOf('data:', bytes.indexOf('Kiel')) + 5, kind: 'silence' }]
  const heard = await respond('chat', { timeout: null, stream_stall_timeout: 0.5, num_retries: 50 })
  expect(heard.result).toMatchObject({ kind: 'reply', brokenAttempts: expect.any(Array) })
  expect(heard.text).toBe(content)
})
