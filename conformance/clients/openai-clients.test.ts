import { randomUUID } from 'node:crypto'
import { createOpenAI } from '@ai-sdk/openai'
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { afterAll, expect, test } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'

const key = 'openai-clients-test-key-1'
const server = await OwnAgentServer.open({ sessionKey: key, isInProcess: true })
afterAll(async () => await server[Symbol.asyncDispose]())
const baseURL = `${server.url}/v1`
const openai = new OpenAI({ baseURL, apiKey: key, maxRetries: 0 })
const vercel = createOpenAI({ baseURL, apiKey: key })

/** Saves a profile with a scripted model, and returns the id of the model. */
async function createModel(...script: readonly unknown[]): Promise<string> {
  const name = `p${randomUUID().slice(0, 8)}`
  await server.api.sendJson('POST', `/api/profiles/${name}`, { llm: { model: 'scripted/x', script } })
  return `openhands_${name}`
}

const parameters = {
  type: 'object',
  properties: { place: { type: 'string' } },
  required: ['place'],
  additionalProperties: false,
} as const
const call = { text: 'I ask.', tool_calls: [{ name: 'get_weather', arguments: { place: 'Oslo' } }] }
const finish = { tool_calls: [{ name: 'finish', arguments: { output: { place: 'Oslo' } } }] }
const format = { name: 'answer', schema: parameters, strict: true }

test('openai: models, chats with tools and streams, answers by a schema', async () => {
  const model = await createModel(call, { text: 'Rain.' })
  expect((await openai.models.retrieve(model)).id).toBe(model)
  expect((await openai.models.list()).data.map(({ id }) => id)).toContain(model)
  const seen: unknown[] = []
  const runner = openai.chat.completions.runTools({
    ...{ model, messages: [{ role: 'user', content: 'Weather?' }], stream: true },
    tools: [
      {
        type: 'function',
        function: {
          name: 'get_weather',
          description: 'Weather.',
          parameters: parameters as object,
          parse: (text: string): object => JSON.parse(text),
          function: (args: object) => {
            seen.push(args)
            return 'heavy rain'
          },
        },
      },
    ],
  })
  expect([await runner.finalContent(), seen]).toEqual(['Rain.', [{ place: 'Oslo' }]])
  const parsed = await openai.chat.completions.parse({
    ...{ model: await createModel(finish), messages: [{ role: 'user', content: 'Where?' }] },
    response_format: { type: 'json_schema', json_schema: format },
  })
  expect(parsed.choices[0]?.message.content).toBe('{"place":"Oslo"}')
  await expect(openai.embeddings.create({ model, input: 'x' })).rejects.toMatchObject({ status: 404 })
  await expect(
    openai.chat.completions.create({ model, messages: [{ role: 'user', content: 'x' }], n: 2 }),
  ).rejects.toMatchObject({ status: 400, param: 'n', type: 'invalid_request_error' })
})

test('openai: responses with tools and streams, read, continued, cancelled and deleted', async () => {
  const model = await createModel(call, { text: 'Rain.' }, { text: 'A coat.' })
  const tools = [
    { type: 'function', name: 'get_weather', parameters: { ...parameters }, strict: true },
  ] as const
  const first = await openai.responses.stream({ model, input: 'Weather?', tools: [...tools] }).finalResponse()
  const made = first.output.find((item) => item.type === 'function_call')
  expect(made).toMatchObject({ name: 'get_weather', parsed_arguments: { place: 'Oslo' } })
  const result = { type: 'function_call_output', call_id: made?.call_id ?? '', output: 'heavy rain' } as const
  const second = await openai.responses.create({
    ...{ model, input: [result], previous_response_id: first.id, tools: [...tools] },
  })
  expect(second.output_text).toBe('Rain.')
  expect((await openai.responses.retrieve(second.id)).output_text).toBe('Rain.')
  const items = await openai.responses.inputItems.list(second.id)
  expect(items.data.map(({ type }) => type)).toEqual(['function_call_output'])
  const text: string[] = []
  const third = await openai.responses.create({
    model,
    input: 'So?',
    previous_response_id: second.id,
    stream: true,
  })
  for await (const event of third) if (event.type === 'response.output_text.delta') text.push(event.delta)
  expect(text.join('')).toBe('A coat.')
  await openai.responses.delete(second.id)
  await expect(openai.responses.retrieve(second.id)).rejects.toMatchObject({ status: 404 })
  const slow = await openai.responses.create({
    ...{ model: await createModel({ text: 'Late.', delay_ms: 60_000 }), input: 'x', background: true },
  })
  expect((await openai.responses.cancel(slow.id)).status).toBe('cancelled')
  const parsed = await openai.responses.parse({
    ...{ model: await createModel(finish), input: 'Where?' },
    text: { format: { type: 'json_schema', ...format } },
  })
  expect(parsed.output_parsed).toEqual({ place: 'Oslo' })
})

test.each(['chat', 'responses'] as const)(
  'Vercel AI SDK by %s: tools, streams and objects',
  async (interface_) => {
    const open = (id: string) => vercel[interface_](id)
    const seen: unknown[] = []
    const tools = {
      get_weather: tool({
        description: 'Weather.',
        inputSchema: jsonSchema<{ place: string }>({ ...parameters }),
        execute: async (input) => {
          seen.push(input)
          return 'heavy rain'
        },
      }),
    }
    const common = { prompt: 'Weather?', tools, stopWhen: stepCountIs(3), maxRetries: 0 }
    const generated = await generateText({
      ...common,
      model: open(await createModel(call, { text: 'Rain.' })),
    })
    const streamed = streamText({ ...common, model: open(await createModel(call, { text: 'Rain.' })) })
    expect([generated.text, await streamed.text]).toEqual(['Rain.', 'Rain.'])
    expect(seen).toEqual([{ place: 'Oslo' }, { place: 'Oslo' }])
    const { output } = await generateText({
      ...{ model: open(await createModel(finish)), prompt: 'Where?', maxRetries: 0 },
      output: Output.object({ schema: jsonSchema<{ place: string }>({ ...parameters }) }),
    })
    expect(output).toEqual({ place: 'Oslo' })
  },
)
