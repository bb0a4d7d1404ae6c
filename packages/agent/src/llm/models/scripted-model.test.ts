import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { llm, type Message } from '@slipway/protocol'
import { expect, test } from 'vitest'
import type { Model, ModelDelta, ModelResult, ModelTool } from '../model.ts'
import { openModel } from './open-model.ts'

const tools: readonly ModelTool[] = [{ name: 'run', description: 'Runs', parameters: { type: 'object' } }]
const signal = new AbortController().signal

function open(script: readonly unknown[], more: Record<string, unknown> = {}): Model {
  return openModel(llm.parse({ model: 'scripted/demo', script, ...more }))
}

function user(text: string): Message {
  return { role: 'user', content: [{ type: 'text', text, cache_prompt: false }], thinking_blocks: [] }
}

function replyText(answer: ModelResult): string {
  return answer.kind === 'reply'
    ? answer.message.content.map((part) => (part.type === 'text' ? part.text : '')).join('')
    : answer.kind
}

test('a script is played turn by turn, and then it is over', async () => {
  const model = open([
    {
      thought: 'I look.',
      reasoning: 'Hm, well.',
      tool_calls: [
        { name: 'run', arguments: { command: 'ls' } },
        { name: 'run', arguments: '{"bro' },
      ],
    },
    'All is well.',
  ])
  const deltas: ModelDelta[] = []
  const ask = () =>
    model.generate({ messages: [user('Go')], tools, onDelta: (delta) => deltas.push(delta) }, signal)
  const first = await ask()
  expect(first).toMatchObject({
    stop: 'tool_calls',
    cost: 0,
    message: {
      content: [{ text: 'I look.' }],
      reasoning_content: 'Hm, well.',
      tool_calls: [
        { name: 'run', arguments: '{"command":"ls"}' },
        { name: 'run', arguments: '{"bro' },
      ],
    },
  })
  expect(deltas.map(({ content = '' }) => content).join('')).toBe('I look.')
  expect(deltas.map(({ reasoning_content = '' }) => reasoning_content).join('')).toBe('Hm, well.')
  expect(deltas.length).toBe(4)
  expect(replyText(await ask())).toBe('All is well.')
  expect(replyText(await ask())).toBe('The script is over.')
})

test('ids never repeat', async () => {
  const script = Array.from({ length: 20 }, () => ({ tool_calls: [{ name: 'run' }, { name: 'run' }] }))
  const ids: string[] = []
  for (let opening = 0; opening < 3; opening += 1) {
    const model = open(script)
    for (let i = 0; i < 20; i += 1) {
      const answer = await model.generate({ messages: [user('Go')], tools }, signal)
      if (answer.kind !== 'reply') throw new Error(answer.kind)
      ids.push(answer.responseId, ...(answer.message.tool_calls ?? []).map(({ id }) => id))
    }
  }
  expect(new Set(ids).size).toBe(ids.length)
})

test('a conversation that is opened again continues where its script was', async () => {
  const script = ['one', 'two', 'three']
  const answers: Message[] = []
  for (const expected of script) {
    const answer = await open(script).generate({ messages: [user('Go'), ...answers], tools }, signal)
    expect(replyText(answer)).toBe(expected)
    if (answer.kind === 'reply') answers.push(answer.message)
  }
})

test('questions without tools have their own answers and take none away', async () => {
  const model = open(['one', { text: 'A title', side: true }, 'two'])
  const aside = () => model.generate({ messages: [user('Title?')], tools: [], maxOutputTokens: 20 }, signal)
  expect(replyText(await aside())).toBe('A title')
  expect(replyText(await model.generate({ messages: [user('Go')], tools }, signal))).toBe('one')
  const beside = model.generate({ messages: [user('Well?')], tools, toolChoice: 'none' }, signal)
  expect(replyText(await beside)).toBe('Scripted answer.')
  expect(replyText(await model.generate({ messages: [user('Go')], tools }, signal))).toBe('two')
})

test('a script can fail, refuse, count and cost', async () => {
  const model = open(
    [
      { error: { code: 'LLMContextWindowExceedError', detail: 'Too much.' } },
      { error: 'anything' },
      { text: 'No.', refusal: true },
      { text: 'Yes.', usage: { prompt_tokens: 1000, completion_tokens: 10 } },
      42,
    ],
    { input_cost_per_token: 0.001, output_cost_per_token: 0.01, log_completions: true },
  )
  const ask = () => model.generate({ messages: [user('Go')], tools }, signal)
  expect(await ask()).toEqual({ kind: 'failure', code: 'LLMContextWindowExceedError', detail: 'Too much.' })
  expect(await ask()).toMatchObject({ kind: 'failure', code: 'LLMError' })
  expect(await ask()).toMatchObject({ stop: 'refusal' })
  const answer = await ask()
  expect(answer).toMatchObject({
    usage: { per_turn_token: 1010 },
    completionLog: { filename: expect.stringMatching(/^scripted__demo-/) },
  })
  expect(answer.kind === 'reply' && answer.cost).toBeCloseTo(1.1)
  expect(await ask()).toMatchObject({ kind: 'reply', message: { content: [] } })
})

test('an abort ends a script at once', async () => {
  const controller = new AbortController()
  const model = open([{ text: 'one two three four', delay_ms: 10, delta_ms: 60_000 }])
  const answer = model.generate(
    { messages: [user('Go')], tools, onDelta: () => controller.abort() },
    controller.signal,
  )
  expect(await answer).toEqual({ kind: 'aborted' })
})

test('a script loads no library, and opening a model loads none either', async () => {
  const program = `
    import { registerHooks } from 'node:module'
    const loaded = []
    registerHooks({ resolve(name, context, next) { loaded.push(name); return next(name, context) } })
    const { openModel } = await import(${JSON.stringify(new URL('open-model.ts', import.meta.url).href)})
    const { llm } = await import('@slipway/protocol')
    const model = openModel(llm.parse({ model: 'scripted/x' }))
    await model.generate({ messages: [], tools: [] }, new AbortController().signal)
    openModel(llm.parse({ model: 'openai/gpt-5', api_key: 'k' })).countTokens([])
    console.log(JSON.stringify(loaded.filter((name) => /ai-sdk|^ai$|genai/.test(name))))
  `
  const run = promisify(execFile)
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: new URL('../../..', import.meta.url).pathname,
  })
  expect(JSON.parse(stdout)).toEqual([])
})
