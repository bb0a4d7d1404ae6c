import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentDriver } from '../support/agent-driver.ts'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'
import { findLeaks, plantSecret } from '../support/canaries.ts'
import { MockProvider } from '../support/mock-provider.ts'

/** Folders that are removed after the test. */
async function createFolders() {
  const [data, directory] = [
    await mkdtemp(join(tmpdir(), 'slipway-')),
    await mkdtemp(join(tmpdir(), 'slipway-')),
  ]
  const remove = async () => {
    for (const path of [data, directory]) await rm(path, { recursive: true, force: true })
  }
  return { data, directory, [Symbol.asyncDispose]: remove }
}

async function startRecordedServer(data: string, secretKey: string) {
  const env = { SLIPWAY_SECRET_KEY: secretKey, SLIPWAY_LOG_LEVEL: 'debug' }
  const server = await startAgentServer(data, env)
  const endpoint = { url: server.url, headers: {}, [Symbol.asyncDispose]: async () => {} }
  const texts: string[] = []
  const api = new (class extends AgentServerApi {
    override async fetch(path: string, init?: RequestInit): Promise<Response> {
      const response = await super.fetch(path, init)
      if (!JSON.stringify(init ?? {}).includes('plaintext')) texts.push(await response.clone().text())
      return response
    }
  })(endpoint)
  const stop = async () => {
    await server.stop('SIGKILL')
  }
  return { server, api, there: endpoint, texts, [Symbol.asyncDispose]: stop }
}

const firstSecretKey = plantSecret('secret-key')

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

/** Everything that is kept in a folder. */
async function readStoredBytes(data: string): Promise<string> {
  const files = (await readdir(data, { recursive: true, withFileTypes: true })).filter((file) =>
    file.isFile(),
  )
  const texts = files.map((file) => readFile(join(file.parentPath, file.name), 'latin1'))
  return (await Promise.all(texts)).join('\n')
}

test('secrets of settings, profiles and the list of secrets reach a conversation, and stand in no answer, file or log', async () => {
  await using place = await createFolders()
  const { data, directory } = place
  await using far = await MockProvider.open()
  let output = ''
  await using running = await startRecordedServer(data, firstSecretKey)
  const { api, texts, there } = running
  const drive = new AgentDriver({ api, server: there, directory })
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
  expect((await drive.post(id, 'secrets', { secrets: { GIVEN: token } })).status).toBe(200)
  expect((await drive.post(id, 'secrets', { secrets: { BAD: { url: '/api/settings' } } })).status).toBe(422)
  await drive.sendMessage(id, 'Begin.')
  const events = JSON.stringify(await drive.waitUntilIdle(id))
  expect(events).toContain('<secret-hidden> <secret-hidden> <secret-hidden>')
  expect(far.requests[0]?.headers).toMatchObject({
    authorization: `Bearer ${plantSecret('llm-key')}`,
    'x-more': plantSecret('llm-header'),
  })
  const switched = { llm: { ...profile, usage_id: 'profile:p:1' } }
  expect((await drive.post(id, 'switch_llm', switched)).status).toBe(200)
  await drive.post(id, 'generate_title', { llm: profile })
  expect(far.requests.at(-1)?.headers.authorization).toBe(`Bearer ${plantSecret('profile')}`)
  far.replies = [{ text: 'Bye.' }]
  await drive.sendMessage(id, 'Go on.')
  await drive.waitUntilIdle(id)
  expect(far.requests.at(-1)?.headers.authorization).toBe(`Bearer ${plantSecret('profile')}`)
  expect((await drive.getInfo(id)).agent).toMatchObject({ llm: { api_key: null } })
  await requestJson(api, 'PATCH', '/api/settings', {
    agent_settings_diff: { llm: { model: 5, api_key: plantSecret('llm-key') } },
  })
  await requestJson(api, 'PUT', '/api/settings/secrets', { name: 'bad name', value: plantSecret('stored') })
  const plain = (await requestJson(api, 'GET', '/api/settings', undefined, 'plaintext')).body
  expect(plain.agent_settings).toMatchObject({ llm: { api_key: plantSecret('llm-key') } })
  output += running.server.output()
  expect(findLeaks(texts.join('\n'))).toEqual([])
  expect(findLeaks(output)).toEqual([])
  expect(output).toContain('secrets were read')
  expect(findLeaks(await readStoredBytes(data))).toEqual([])
})

test('with another key nothing of it is shown, changed or lost', async () => {
  await using place = await createFolders()
  const { data } = place
  const diff = { agent_settings_diff: { llm: { model: 'openai/m', api_key: plantSecret('kept') } } }
  {
    await using first = await startRecordedServer(data, firstSecretKey)
    await requestJson(first.api, 'PATCH', '/api/settings', diff)
    await requestJson(first.api, 'PUT', '/api/settings/secrets', {
      name: 'A',
      value: plantSecret('kept-secret'),
    })
  }
  {
    await using other = await startRecordedServer(data, 'another key altogether')
    const { api } = other
    const body = { misc_settings_diff: { a: 1 } }
    expect((await requestJson(api, 'GET', '/api/settings')).status).toBe(409)
    expect((await requestJson(api, 'PATCH', '/api/settings', body)).status).toBe(409)
    expect((await requestJson(api, 'POST', '/api/settings/mcp/a', { command: 'x' })).status).toBe(409)
    expect((await requestJson(api, 'GET', '/api/settings/secrets')).status).toBe(409)
    expect((await requestJson(api, 'PUT', '/api/settings/secrets', { name: 'B', value: 'x' })).status).toBe(
      409,
    )
    expect((await requestJson(api, 'DELETE', '/api/settings/secrets/A')).status).toBe(409)
    expect((await requestJson(api, 'GET', '/api/settings/secrets/A')).status).toBe(409)
  }
  await using again = await startRecordedServer(data, firstSecretKey)
  const { body } = await requestJson(again.api, 'GET', '/api/settings', undefined, 'plaintext')
  expect(body).toMatchObject({ agent_settings: diff.agent_settings_diff, misc_settings: {} })
  expect((await requestJson(again.api, 'GET', '/api/settings/secrets/A', undefined, 'plaintext')).body).toBe(
    plantSecret('kept-secret'),
  )
})

test('a change that was acknowledged is there after a kill, and none is there by half', async () => {
  await using place = await createFolders()
  const { data } = place
  let acknowledged = -1
  for (let round = 0; round < 3; round++) {
    await using running = await startRecordedServer(data, firstSecretKey)
    const { body } = await requestJson(running.api, 'GET', '/api/settings')
    const found = body.misc_settings.count ?? -1
    expect(found).toBeGreaterThanOrEqual(acknowledged)
    expect(body.conversation_settings.max_iterations).toBe(found === -1 ? 500 : found + 1)
    const killed = new Promise<void>((resolve) => {
      setTimeout(() => void running.server.stop('SIGKILL').then(() => resolve()), 300 + 150 * round)
    })
    for (let count = found + 1; ; count++) {
      const misc_settings_diff = { count }
      const conversation_settings_diff = { max_iterations: count + 1 }
      const change = { misc_settings_diff, conversation_settings_diff }
      const answer = await requestJson(running.api, 'PATCH', '/api/settings', change).catch(() => undefined)
      if (answer?.status !== 200) break
      acknowledged = count
    }
    await killed
  }
  expect(acknowledged).toBeGreaterThan(3)
})
