import { randomUUID } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import type { ReplyPart } from '../../../fuzz/endurance/reply.ts'
import { framesOf } from '../../../fuzz/endurance/streams.ts'
import { openAgentFixture } from '../../support/agent-fixture.ts'
import { runCli } from '../../support/cli.ts'
import { MockProvider, type ScriptedReply } from '../../support/mock-provider.ts'

// Claude interleaves thoughts with texts and calls, and ends a run by a text or by a call of `finish`, which is
// an action and no message. Wherever the answer is read, it is what the model said, and an absent text is never
// a word.

const { api, directory, driver, server } = await openAgentFixture()
const provider = await MockProvider.open()
afterAll(async () => await provider[Symbol.asyncDispose]())

/** Thoughts (r), hidden thoughts (h), texts (t), calls (c) and `finish` (f). */
function parts(order: string): ReplyPart[] {
  return [...order].map((letter, index): ReplyPart => {
    if (letter === 'h') return { kind: 'hidden' }
    if (letter === 'r') return { kind: 'thought', text: `Thought ${index}.` }
    if (letter === 't') return { kind: 'text', text: `Text ${index}.` }
    const [name, input] = letter === 'f' ? ['finish', { message: 'Done.' }] : ['think', { thought: 'Hm.' }]
    return { kind: 'call', name: String(name), input: JSON.stringify(input) }
  })
}

function reply(order: string): ScriptedReply {
  return (response, { path }) => {
    const wire = path.includes('/messages') ? 'anthropic' : 'chat'
    const options = { id: randomUUID().slice(0, 8), counts: { input: 90, output: 10 } }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const frame of framesOf(wire, { parts: parts(order), end: 'stop' }, options)) response.write(frame)
    response.end()
  }
}

/** The replies of a run, by their orders, and its answer. */
const runs: readonly (readonly [string, string])[] = [
  ['rtcrc t', 'Text 0.'],
  ['rcrc rtrt', 'Text 1.Text 3.'],
  ['hrc trt', 'Text 0.Text 2.'],
  ['rhtcrcc hrt', 'Text 2.'],
  ['ctc f', 'Done.'],
  ['rct rtf', 'Done.'],
  ['rtct rcrf', 'Done.'],
  // An answer of thoughts alone is asked again.
  ['trc rhr rt', 'Text 1.'],
]

describe.each(['anthropic', 'chat'] as const)('%s', (wire) => {
  const llm = provider.llm(wire === 'chat' ? 'compatible' : wire, { extended_thinking_budget: 2048 })

  test.each(runs)('%s: the answer is %s', async (orders, answer) => {
    const play = () => {
      provider.replies = orders.split(' ').map(reply)
    }
    play()
    const more = { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } }
    const { id } = await driver.create({ llm }, more)
    await driver.waitUntilIdle(id)
    const { body } = await api.requestJson(`/api/conversations/${id}/agent_final_response`)
    expect(body).toEqual({ response: answer })
    expect(await driver.getInfo(id)).toMatchObject({ execution_status: 'finished' })
    expect((await api.export(id)).toString()).not.toContain('undefined')

    play()
    const name = `p${randomUUID().slice(0, 8)}`
    await api.sendJson('POST', `/api/profiles/${name}`, { llm })
    const messages = [{ role: 'user', content: 'Begin.' }]
    const completion = await api.sendJson('POST', '/v1/chat/completions', {
      ...{ model: `openhands_${name}`, messages },
    })
    expect(completion).toMatchObject({ body: { choices: [{ message: { content: answer } }] } })
    play()
    const stream = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { ...server.headers, 'content-type': 'application/json' },
      body: JSON.stringify({ model: `openhands_${name}`, messages, stream: true }),
    })
    const streamed = [...(await stream.text()).matchAll(/^data: (\{.*)$/gm)]
      .map(([, chunk]) => JSON.parse(String(chunk)).choices[0].delta.content ?? '')
      .join('')
    expect(streamed.endsWith(answer), streamed).toBe(true)
    expect(streamed).not.toContain('undefined')
  })
})

test.each(runs.filter((_, index) => index % 3 === 1))('slipway run: %s prints %s', async (orders, answer) => {
  provider.replies = orders.split(' ').map(reply)
  const model = ['--model', 'anthropic/claude-sonnet-4-5', '--base-url', provider.url]
  const env = { SLIPWAY_URL: server.url, LLM_API_KEY: 'sk-far' }
  const { stdout, stderr, code } = await runCli(['run', 'Begin.', '--workspace', directory, ...model], env)
  expect(code, stderr).toBe(0)
  for (const text of answer.split(/(?<=\.)/)) expect(stdout).toContain(text)
  expect(stdout + stderr).not.toContain('undefined')
})
