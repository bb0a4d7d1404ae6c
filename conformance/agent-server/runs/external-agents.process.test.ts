import { expect, test } from 'vitest'
import { OwnAgentServer } from '../../support/agent-fixture.ts'

/** A program that is never started: nothing runs here. */
const agent = {
  kind: 'ACPAgent',
  acp_command: ['/nothing/there'],
  acp_args: ['--flag'],
  tools: [],
  acp_server: 'custom',
  acp_model: 'small',
  acp_resume_session_id: 'canary-session-1',
  mcp_config: { tools: { command: 'true', env: { KEY: 'canary-mcp-1' } } },
}

test('a conversation of an external agent is created, read, listed, forked, exported and kept', async () => {
  await using server = await OwnAgentServer.open()
  const secrets = { API_KEY: { value: 'canary-secret-1' } }
  const { id } = await server.driver.create(agent, { secrets, tags: { team: 'a' } })
  const shown = {
    agent: {
      kind: 'ACPAgent',
      acp_command: ['/nothing/there'],
      acp_args: ['--flag'],
      acp_server: 'custom',
      acp_model: 'small',
      acp_prompt_timeout: 1800,
      acp_startup_timeout: 90,
      acp_resume_session_id: null,
      tools: [],
      include_default_tools: [],
      llm: { model: 'small', usage_id: 'acp-managed' },
    },
    current_model_id: 'small',
    available_models: [],
    supports_runtime_model_switch: false,
    agent_state: {},
  }
  expect(await server.driver.getInfo(id)).toMatchObject(shown)
  const list = await server.api.requestJson<{ items: object[] }>('/api/conversations/search?tag=team')
  expect(list.body.items).toMatchObject([shown])

  expect((await server.driver.post(id, 'switch_acp_model', { model: 'large' })).status).toBe(200)
  const large = {
    agent: { acp_model: 'large', llm: { model: 'large', usage_id: 'acp-managed' } },
    current_model_id: 'large',
    agent_state: { acp_current_model_id: 'large' },
  }
  expect(await server.driver.getInfo(id)).toMatchObject(large)
  const fork = await server.driver.post(id, 'fork', {})
  expect(fork).toMatchObject({ status: 201, body: large })
  await server.restart()
  expect(await server.driver.getInfo(id)).toMatchObject(large)
  expect((await server.driver.post(id, 'switch_acp_model', { model: 'other' })).status).toBe(200)

  const texts = [
    JSON.stringify(await server.driver.getInfo(id)),
    (await server.api.export(id)).toString(),
    server.output(),
  ]
  for (const text of texts) expect(text).not.toContain('canary')
})

test('requests that need a model of the server are refused', async () => {
  await using server = await OwnAgentServer.open()
  const { id } = await server.driver.create(agent)
  for (const [verb, body, text] of [
    ['switch_llm', { llm: { model: 'openai/m' } }, 'switch_llm'],
    ['ask_agent', { question: 'Why?' }, 'ask_agent'],
    ['goal', { objective: 'x' }, 'goal'],
    ['switch_acp_model', { model: ' ' }, 'model must be a non-empty string'],
  ] as const)
    expect(await server.driver.post(id, verb, body)).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining(text) },
    })
  expect((await server.driver.post(id, 'condense')).status).toBe(409)
  const { body } = await server.driver.post(id, 'generate_title', {})
  expect(body).toEqual({ title: '' })
})
