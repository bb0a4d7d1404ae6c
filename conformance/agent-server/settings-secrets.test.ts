import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import type { AgentServerApi } from '../support/agent-server-api.ts'
import { findLeaks, plantSecret } from '../support/canaries.ts'
import { MockProvider } from '../support/mock-provider.ts'

const firstSecretKey = plantSecret('secret-key')
const env = { SLIPWAY_SECRET_KEY: firstSecretKey, SLIPWAY_LOG_LEVEL: 'debug' }

const requestJson = async (
  api: AgentServerApi,
  method: string,
  path: string,
  body?: unknown,
  expose?: string,
) => {
  const headers = { 'content-type': 'application/json', ...(expose && { 'x-expose-secrets': expose }) }
  const response = await api.fetch(path, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type') === 'application/json'
  return { status: response.status, body: isJson ? JSON.parse(text) : text }
}

/** All bytes stored in a folder. */
async function readStoredBytes(data: string): Promise<string> {
  const files = (await readdir(data, { recursive: true, withFileTypes: true })).filter((file) =>
    file.isFile(),
  )
  // A journal goes while it is listed.
  const texts = files.map((file) => readFile(join(file.parentPath, file.name), 'latin1').catch(() => ''))
  return (await Promise.all(texts)).join('\n')
}

test('secrets of settings, profiles and the list of secrets reach a conversation, and no reply, file or log contains them', async () => {
  await using far = await MockProvider.open()
  const texts: string[] = []
  await using server = await OwnAgentServer.open({
    env,
    async onResponse(response, init) {
      if (!JSON.stringify(init).includes('plaintext')) texts.push(await response.text())
    },
  })
  const { api, driver, data, directory } = server
  const llm = far.llm('compatible', {
    api_key: plantSecret('llm-key'),
    extra_headers: { 'x-more': plantSecret('llm-header') },
    num_retries: 0,
  })
  const agent_settings_diff = {
    llm,
    mcp_config: { off: { command: 'true', env: { TOKEN: plantSecret('mcp-env') }, enabled: false } },
    agent_context: { secrets: { CONTEXT: { value: plantSecret('context') } } },
    verification: { critic_api_key: plantSecret('critic') },
  }
  await requestJson(api, 'PATCH', '/api/settings', { agent_settings_diff })
  await requestJson(api, 'POST', '/api/settings/mcp/two', {
    url: 'https://x.example',
    headers: { K: plantSecret('mcp-header') },
    enabled: false,
  })
  await requestJson(api, 'PATCH', '/api/settings/mcp/two', {
    auth: { strategy: 'bearer', value: plantSecret('mcp-auth') },
  })
  await requestJson(api, 'PUT', '/api/settings/secrets', { name: 'STORED', value: plantSecret('stored') })
  await requestJson(api, 'POST', '/api/profiles/p', {
    llm: { ...llm, api_key: plantSecret('profile') },
    include_secrets: true,
  })
  const sealed = (await requestJson(api, 'GET', '/api/settings', undefined, 'encrypted')).body
  const profile = (await requestJson(api, 'GET', '/api/profiles/p', undefined, 'true')).body.config
  far.replyWithoutTools = { text: 'A title' }
  far.replies = [
    { calls: [{ name: 'terminal', arguments: { command: 'echo "$STORED" "$CONTEXT" "$GIVEN"' } }] },
    { calls: [{ name: 'finish', arguments: { message: `It was ${plantSecret('stored')}` } }] },
  ]
  const created = await requestJson(api, 'POST', '/api/conversations', {
    agent_settings: sealed.agent_settings,
    secrets_encrypted: true,
    workspace: { working_dir: directory },
    secrets: {
      STORED: {
        kind: 'LookupSecret',
        url: '/api/settings/secrets/STORED',
        headers: { k: plantSecret('lookup-header') },
      },
    },
    autotitle: false,
  })
  expect(created.status).toBe(201)
  const { id } = created.body
  // The value of a secret and a model, as tokens of this server.
  const token = sealed.agent_settings.verification.critic_api_key
  expect((await driver.post(id, 'secrets', { secrets: { GIVEN: token } })).status).toBe(200)
  expect((await driver.post(id, 'secrets', { secrets: { BAD: { url: '/api/settings' } } })).status).toBe(422)
  await driver.sendMessage(id, 'Begin.')
  const events = JSON.stringify(await driver.waitUntilIdle(id))
  expect(events).toContain('<secret-hidden> <secret-hidden> <secret-hidden>')
  expect(far.requests[0]?.headers).toMatchObject({
    authorization: `Bearer ${plantSecret('llm-key')}`,
    'x-more': plantSecret('llm-header'),
  })
  const switched = { llm: { ...profile, usage_id: 'profile:p:1' } }
  expect((await driver.post(id, 'switch_llm', switched)).status).toBe(200)
  await driver.post(id, 'generate_title', { llm: profile })
  expect(far.requests.at(-1)?.headers.authorization).toBe(`Bearer ${plantSecret('profile')}`)
  far.replies = [{ text: 'Bye.' }]
  await driver.sendMessage(id, 'Continue.')
  await driver.waitUntilIdle(id)
  expect(far.requests.at(-1)?.headers.authorization).toBe(`Bearer ${plantSecret('profile')}`)
  expect((await driver.getInfo(id)).agent).toMatchObject({ llm: { api_key: null } })
  await requestJson(api, 'PATCH', '/api/settings', {
    agent_settings_diff: { llm: { model: 5, api_key: plantSecret('llm-key') } },
  })
  await requestJson(api, 'PUT', '/api/settings/secrets', { name: 'bad name', value: plantSecret('stored') })
  const plain = (await requestJson(api, 'GET', '/api/settings', undefined, 'plaintext')).body
  expect(plain.agent_settings).toMatchObject({ llm: { api_key: plantSecret('llm-key') } })
  const output = server.output()
  expect(findLeaks(texts.join('\n'))).toEqual([])
  expect(findLeaks(output)).toEqual([])
  expect(output).toContain('secrets were read')
  expect(findLeaks(await readStoredBytes(data))).toEqual([])
})

test('with another key nothing is shown, changed or lost', async () => {
  const diff = { agent_settings_diff: { llm: { model: 'openai/m', api_key: plantSecret('stored-key') } } }
  await using server = await OwnAgentServer.open({ env, isInProcess: true })
  await requestJson(server.api, 'PATCH', '/api/settings', diff)
  const secret = { name: 'A', value: plantSecret('stored-secret') }
  await requestJson(server.api, 'PUT', '/api/settings/secrets', secret)

  await server.restart('SIGTERM', { SLIPWAY_SECRET_KEY: 'another key altogether' })
  const refused: readonly [method: string, path: string, body?: object][] = [
    ['GET', '/api/settings'],
    ['PATCH', '/api/settings', { misc_settings_diff: { a: 1 } }],
    ['POST', '/api/settings/mcp/a', { command: 'x' }],
    ['GET', '/api/settings/secrets'],
    ['PUT', '/api/settings/secrets', { name: 'B', value: 'x' }],
    ['DELETE', '/api/settings/secrets/A'],
    ['GET', '/api/settings/secrets/A'],
  ]
  for (const [method, path, body] of refused)
    expect((await requestJson(server.api, method, path, body)).status, `${method} ${path}`).toBe(409)

  await server.restart()
  const { body } = await requestJson(server.api, 'GET', '/api/settings', undefined, 'plaintext')
  expect(body).toMatchObject({ agent_settings: diff.agent_settings_diff, misc_settings: {} })
  const found = await requestJson(server.api, 'GET', '/api/settings/secrets/A', undefined, 'plaintext')
  expect(found.body).toBe(secret.value)
})
