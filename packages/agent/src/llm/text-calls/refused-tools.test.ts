import { afterAll, beforeAll, expect, test } from 'vitest'
import { openModel } from '../models/open-model.ts'
import { LeftOutInMemory } from '../refusals/left-out.ts'
import { isRefusalOfTools } from '../refusals/refused-request.ts'
import { toolsRefused } from '../refusals/testing/refusal-answers.ts'
import { history, settingsOf, tools } from '../refusals/testing/refused-history.ts'
import { RefusingServer } from '../refusals/testing/refusing-server.ts'

let server: RefusingServer

beforeAll(async () => {
  server = await RefusingServer.open()
})
afterAll(() => server[Symbol.asyncDispose]())

const never = new AbortController().signal

test.each(toolsRefused)('%s refuses tools: the prompt describes them', async (_, wire, answer) => {
  server.refuse = (body) => ('tools' in body || 'toolConfig' in body ? answer : undefined)
  server.reply = '<tool_call>{"name": "grep", "arguments": {"pattern": "x"}}</tool_call>'
  server.requests = []
  const request = { messages: history(wire, new URL(server.url).host), tools }
  const leftOut = new LeftOutInMemory()
  const model = openModel(settingsOf(wire, server.url), { leftOut })
  const first = await model.generate(request, never)
  expect(first).toMatchObject({ kind: 'reply' })
  // The server plays this reply in chats alone.
  if (wire === 'compatible') expect(first).toMatchObject({ stop: 'tool_calls' })
  expect(server.requests.filter((body) => body !== '')).toHaveLength(2)
  expect(server.requests.at(-1)).toContain('Does grep.')
  // It is known to the next request, and to another process.
  server.requests = []
  expect(await model.generate(request, never)).toMatchObject({ kind: 'reply' })
  const other = openModel(settingsOf(wire, server.url), { leftOut })
  expect(await other.generate(request, never)).toMatchObject({ kind: 'reply' })
  expect(server.requests).toHaveLength(2)
})

test.each([
  "Unsupported parameter: 'tool_choice' is not supported with this model.",
  'Parallel tool calls are not supported',
  "Tool 'web_search' is not supported with this model",
  'This model does not support tool_choice',
  'This model does not support images',
  'tools.1.custom.name: String should match pattern',
])('%s refuses something else', (detail) => {
  expect(isRefusalOfTools({ code: 'LLMBadRequestError', detail })).toBe(false)
})
