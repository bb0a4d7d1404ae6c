import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openAgentFixture } from '../support/agent-fixture.ts'
import { findPython, pythonEnv } from '../support/python.ts'

const { api, directory, server } = await openAgentFixture()
const python = findPython('openai')
if (python === undefined)
  console.warn('SKIPPED: .ci/python openai has not installed the clients of OpenAI’s interface')

const args = { place: 'Oslo' }
const scripts = {
  tool: [{ text: 'I ask.', tool_calls: [{ name: 'get_weather', arguments: args }] }, { text: 'Rain.' }],
  text: [{ text: 'Hello there.' }],
  schema: [{ tool_calls: [{ name: 'finish', arguments: { output: args } }] }],
  function: [{ tool_calls: [{ name: 'Place', arguments: args }] }],
  text_json: [{ text: '```json\n{"place": "Oslo"}\n```' }],
}

test.skipIf(python === undefined)(
  'Python clients of OpenAI’s interface work unmodified, with tools, streams and schemas',
  { timeout: 240_000 },
  async () => {
    for (const [name, script] of Object.entries(scripts))
      await api.sendJson('POST', `/api/profiles/${name}`, { llm: { model: 'scripted/x', script } })
    const program = resolve(import.meta.dirname, 'python/openai_clients.py')
    const models = ['tool', 'text', 'schema', 'function'].map((name) => `openhands_${name}`)
    const { stdout } = await promisify(execFile)(
      String(python),
      [program, `${server.url}/v1`, 'any-key', ...models],
      { env: pythonEnv(String(python), directory) },
    )
    const rain = ['Rain.', 'Rain.', 'Rain.', 'Rain.']
    expect(JSON.parse(stdout)).toEqual({
      by_openai: ['Hello there.', 'Oslo', 'Oslo'],
      by_litellm: ['Rain.', 'Hello there.', 'Hello there.'],
      by_langchain: ['Rain.', 'Hello there.', 'Oslo', 'Rain.', 'Hello there.', 'Oslo'],
      by_instructor: {
        ...{ TOOLS: 'Oslo', TOOLS_STRICT: 'Oslo', RESPONSES_TOOLS: 'Oslo' },
        ...{ JSON: 'Oslo', JSON_SCHEMA: 'Oslo', MD_JSON: 'Oslo' },
      },
      by_agents: rain,
      by_pydantic_ai: rain,
    })
  },
)
