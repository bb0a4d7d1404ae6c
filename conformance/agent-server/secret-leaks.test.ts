import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { eventLabel, type SocketClient, scriptedModel } from '../support/agent-driver.ts'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { findLeaks, plantedSecrets, plantSecret } from '../support/canaries.ts'
import { MockProvider, type ScriptedReply } from '../support/mock-provider.ts'

/** All replies to callers. */
let responses = ''
const server = await OwnAgentServer.open({
  env: {
    SLIPWAY_SECRET_KEY: plantSecret('secret-key'),
    SLIPWAY_LOG_LEVEL: 'debug',
    SOME_SERVICE_TOKEN: plantSecret('environment'),
  },
  sessionKey: plantSecret('session-key'),
  async onResponse(response) {
    responses += `\n${response.status} ${[...response.headers].join(' ')}\n${await response.text()}`
  },
})
const { data, directory } = server
let { api, driver } = server
const mockProvider = await MockProvider.open()
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await mockProvider[Symbol.asyncDispose]()
})

/** A model with a secret in every setting that accepts one. */
function modelWithSecrets(location: string, more: object = {}): object {
  return mockProvider.llm('compatible', {
    api_key: plantSecret(`${location}-api-key`),
    aws_access_key_id: plantSecret(`${location}-aws-id`),
    aws_secret_access_key: plantSecret(`${location}-aws-secret`),
    aws_session_token: plantSecret(`${location}-aws-session`),
    extra_headers: {
      'x-service-auth': plantSecret(`${location}-header`),
      'x-bearer': `Bearer ${plantSecret(`${location}-bearer`)}`,
    },
    litellm_extra_body: { api_token: plantSecret(`${location}-body`) },
    num_retries: 0,
    usage_id: location,
    ...more,
  })
}

/** A provider that refuses, and repeats the request in its error. */
const echoingReply: ScriptedReply = (response, { headers, body }) => {
  const { api_token } = body
  const message = `Refused: ${JSON.stringify(headers)} ${JSON.stringify({ api_token })}`
  response.writeHead(401, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ error: { message, type: 'authentication_error' } }))
}

const terminalReply = (command: string): ScriptedReply => ({
  calls: [{ name: 'terminal', arguments: { command } }],
})

/** An MCP server over standard streams that returns its secrets. */
const mcpServer = `
import { createInterface } from 'node:readline'
const say = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
console.error('started with ' + process.env.MCP_TOKEN)
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'initialize') say(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'leaky', version: '1' } })
  else if (method === 'tools/list') say(id, { tools: [{ name: 'tell', description: 'Tells.', inputSchema: { type: 'object', properties: { what: { type: 'string' } } } }] })
  else if (method === 'tools/call') say(id, { content: [{ type: 'text', text: process.env.MCP_TOKEN + ' ' + JSON.stringify(params) }], structuredContent: { env: process.env.MCP_TOKEN } })
  else if (id !== undefined) say(id, {})
})
`

const multiline = () => `-----BEGIN KEY-----\n${plantSecret('line-two')}\n-----END "KEY" \\-----`
const clients: SocketClient[] = []
const frames = () => clients.flatMap((client) => client.frames)

/** Runs conversations that use secrets in every way; resolves when all are idle. */
async function runConversationsWithSecrets(): Promise<string[]> {
  await writeFile(join(directory, 'mcp.mjs'), mcpServer)
  await writeFile(join(directory, 'notes.txt'), `the file says ${plantSecret('static')}\n`)
  const ids: string[] = []

  // A run with all kinds of secrets, tools that print them, and a model that splits them over deltas.
  mockProvider.bodyForGet = plantSecret('lookup')
  mockProvider.replyWithoutTools = { text: `A title with ${plantSecret('static')}` }
  mockProvider.replies = [
    terminalReply('echo "$STATIC" "$CONTEXT"; env; cat notes.txt; echo "$LOOKUP"'),
    terminalReply(`echo ${plantSecret('static')} ${plantSecret('tool-params')} ; env | sort`),
    terminalReply(
      `echo ${['main-bearer', 'main-header', 'mcp-header', 'mcp-query', 'mcp-auth', 'critic'].map(plantSecret).join(' ')}`,
    ),
    terminalReply('printf "%s" "$MULTI" | tee key.pem; cat key.pem | tr -d x'),
    { calls: [{ name: 'file_editor', arguments: { command: 'view', path: join(directory, 'notes.txt') } }] },
    {
      calls: [
        {
          name: 'file_editor',
          arguments: {
            command: 'create',
            path: join(directory, 'new.txt'),
            file_text: `x ${plantSecret('context')}`,
          },
        },
      ],
    },
    { calls: [{ name: 'grep', arguments: { pattern: plantSecret('static') } }] },
    {
      calls: [
        { name: 'think', arguments: { thought: `The value is ${plantSecret('static')} and ${multiline()}` } },
      ],
    },
    { calls: [{ name: 'tell', arguments: { what: '$STATIC and $CONTEXT' } }] },
    { calls: [{ name: 'no_such', arguments: { [plantSecret('static')]: plantSecret('context') } }] },
    { calls: [{ name: 'terminal', arguments: `{"command": "echo ${plantSecret('static')}` }] },
    {
      text: `I say ${plantSecret('static')} aloud.`,
      reasoning: `I think of ${plantSecret('context')} long.`,
      calls: [{ name: 'finish', arguments: { message: `Bye ${plantSecret('lookup')}` } }],
    },
  ]
  const { id } = await driver.create(
    {
      llm: modelWithSecrets('main', { stream: true, log_completions: true }),
      tools: [
        { name: 'terminal', params: { env: { TOOL_TOKEN: plantSecret('tool-params') } } },
        { name: 'file_editor' },
        { name: 'grep' },
      ],
      condenser: { kind: 'LLMSummarizingCondenser', llm: modelWithSecrets('condenser'), max_size: 100 },
      critic: {
        kind: 'APIBasedCritic',
        server_url: mockProvider.url,
        api_key: plantSecret('critic'),
        model_name: 'm',
      },
      mcp_config: {
        leaky: {
          command: process.execPath,
          args: [join(directory, 'mcp.mjs')],
          env: { MCP_TOKEN: plantSecret('mcp-env') },
        },
        off: {
          url: `${mockProvider.url}/mcp?api_key=${plantSecret('mcp-query')}`,
          headers: { Authorization: `Bearer ${plantSecret('mcp-header')}` },
          auth: { token: plantSecret('mcp-auth') },
          disabled: true,
        },
      },
      agent_context: {
        secrets: { CONTEXT: plantSecret('context') },
        system_message_suffix: `Keep ${plantSecret('static')}.`,
      },
    },
    {
      autotitle: true,
      secrets: {
        STATIC: { kind: 'StaticSecret', value: plantSecret('static'), description: 'a static one' },
        LOOKUP: {
          kind: 'LookupSecret',
          url: `${mockProvider.url}/secret?key=${plantSecret('lookup-query')}`,
          headers: { 'x-token': plantSecret('lookup-header') },
        },
        MULTI: multiline(),
      },
      hook_config: {
        pre_tool_use: [
          { matcher: 'grep', hooks: [{ command: `echo "hook ${plantSecret('static')}" >&2; exit 3` }] },
        ],
      },
    },
  )
  ids.push(id)
  for (const path of [
    `/sockets/events/${id}`,
    `/sockets/events/${id}?after=0&session_api_key=${plantSecret('session-key')}`,
  ]) {
    const client = driver.openSocket(path)
    clients.push(client)
    await new Promise((done) => client.socket.once('open', done))
  }
  await driver.sendMessage(id, `Begin, and remember ${plantSecret('static')}.`)
  const hints = api.fetch(`/api/conversations/${id}/events/stream?until=idle&hints=true`)
  expect((await driver.waitUntilIdle(id)).map(eventLabel).at(-1)).toBe('execution_status=finished')
  await (await hints).text()
  await driver.post(id, 'generate_title', { llm: modelWithSecrets('title') })
  await driver.post(id, 'ask_agent', { question: `What of ${plantSecret('static')}?` })
  mockProvider.replyWithoutTools = echoingReply
  await driver.post(id, 'ask_agent', { question: 'And now?' })
  await driver.post(id, 'generate_title', { llm: modelWithSecrets('title') })
  await driver.post(id, 'condense')

  // Changes during and after a run, with a provider that echoes its requests.
  await driver.post(id, 'secrets', {
    secrets: {
      LATER: plantSecret('later'),
      OTHER: { url: `${mockProvider.url}/secret`, headers: { a: plantSecret('later-header') } },
    },
  })
  mockProvider.replies = [terminalReply('echo "$LATER"'), echoingReply]
  await driver.post(id, 'switch_llm', {
    llm: modelWithSecrets('switched', {
      fallback_strategy: { fallback_llms: [modelWithSecrets('fallback')] },
    }),
  })
  await driver.sendMessage(id, `And ${plantSecret('later')}.`)
  expect((await driver.waitUntilIdle(id)).map(eventLabel).at(-1)).toBe(
    'ConversationErrorEvent:LLMAuthenticationError',
  )
  await api.sendJson('POST', '/api/profiles/canary', {
    llm: modelWithSecrets('profile'),
    include_secrets: true,
  })
  await api.sendJson('POST', '/api/profiles/plain', {
    llm: modelWithSecrets('profile-plain'),
    include_secrets: false,
  })
  await driver.post(id, 'switch_profile', { profile_name: 'canary' })
  await driver.sendMessage(id, 'Once more.')
  await driver.waitUntilIdle(id)
  ids.push(((await driver.post(id, 'fork')).body as { id: string }).id)

  // MCP servers that fail to start with a message.
  const broken = [
    {
      url: `${mockProvider.url}/mcp?api_key=${plantSecret('bad-mcp-query')}`,
      headers: { Authorization: `Bearer ${plantSecret('bad-mcp-header')}` },
    },
    {
      command: process.execPath,
      args: ['-e', 'console.error(process.env.BAD); console.log(process.env.BAD); process.exit(1)'],
      env: { BAD: plantSecret('bad-mcp-env') },
    },
  ]
  for (const required of [true, false])
    for (const brokenConfig of broken) {
      const made = await driver.create(
        { llm: scriptedModel(['x']), mcp_config: { bad: { ...brokenConfig, required } } },
        { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
      )
      const labels = (await driver.waitUntilIdle(made.id)).map(eventLabel).join()
      expect(labels).toMatch(required ? /ConversationErrorEvent[^,]*$/ : /mcp_server/)
      ids.push(made.id)
    }

  // A password in an address, and settings by agent_settings.
  const base_url = `${mockProvider.url.replace('//', `//user:${plantSecret('url-password')}@`)}/v1`
  const made = await driver.create(
    { llm: modelWithSecrets('in-url', { base_url }) },
    { initial_message: { content: [{ type: 'text', text: `Go ${plantSecret('in-url-api-key')}` }] } },
  )
  await driver.waitUntilIdle(made.id)
  ids.push(made.id)
  mockProvider.replies = [echoingReply]
  const settings = (await api.sendJson('POST', '/api/conversations', {
    agent_settings: {
      llm: modelWithSecrets('settings'),
      verification: {
        critic_enabled: true,
        critic_server_url: mockProvider.url,
        critic_api_key: plantSecret('settings-critic'),
      },
    },
    workspace: { working_dir: directory },
    initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
  })) as { body: { id: string } }
  await driver.waitUntilIdle(settings.body.id)
  ids.push(settings.body.id)
  return ids
}

/** Invalid requests with secrets in them. */
async function sendRejectedRequests(): Promise<void> {
  const llm = modelWithSecrets('refused')
  const workspace = { working_dir: directory }
  const bodies: readonly (readonly [string, unknown])[] = [
    ['/api/conversations', { agent: { llm: { ...llm, model: '' } }, workspace }],
    [
      '/api/conversations',
      { agent: { llm: { ...llm, num_retries: plantSecret('refused-number') } }, workspace },
    ],
    [
      '/api/conversations',
      { agent: { llm, mcp_config: { a: { env: plantSecret('refused-env') } } }, workspace },
    ],
    [
      '/api/conversations',
      { agent: { llm, mcp_config: { a: { env: { X: [plantSecret('refused-env')] } } } }, workspace },
    ],
    ['/api/conversations', { agent: { llm, kind: plantSecret('refused-kind') }, workspace }],
    [
      '/api/conversations',
      { agent: { llm }, workspace, secrets: { A: { kind: plantSecret('refused-secret'), value: 'x' } } },
    ],
    ['/api/conversations', { agent: { llm }, workspace, secrets: [plantSecret('refused-secret')] }],
    ['/api/conversations', { agent: { llm }, workspace, hook_config: { stop: plantSecret('refused-hook') } }],
    ['/api/conversations', { agent_settings: { llm: { ...llm, model: 1 } }, workspace }],
    ['/api/profiles/p', { llm: { ...llm, model: '' } }],
    ['/api/profiles/..', { llm }],
  ]
  for (const [path, body] of bodies)
    expect((await api.sendJson('POST', path, body)).status).toBeGreaterThanOrEqual(400)
  const texts = [
    `{"agent": {"llm": {"api_key": "${plantSecret('broken-json')}"`,
    `"${plantSecret('broken-json')}`,
    plantSecret('broken-json'),
  ]
  for (const body of texts) {
    const headers = { 'content-type': 'application/json' }
    expect((await api.fetch('/api/conversations', { method: 'POST', headers, body })).status).toBe(422)
  }
  const wrong = { 'x-session-api-key': plantSecret('wrong-session-key') }
  expect((await api.fetch('/api/conversations/count', { headers: wrong })).status).toBe(401)
  await api.fetch(`/api/conversations/count?session_api_key=${plantSecret('session-key')}`)
}

async function listFiles(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  return entries.flatMap((entry) => (entry.isFile() ? [join(entry.parentPath, entry.name)] : []))
}

/** The deltas of replies, concatenated. */
function joinDeltas(texts: readonly string[]): string {
  const deltas = texts.map((text) => JSON.parse(text)).map((frame) => frame.hint ?? frame)
  const pieces = deltas.filter(({ kind }) => kind === 'StreamingDeltaEvent')
  return ['content', 'reasoning_content']
    .map((name) => pieces.map((piece) => piece[name] ?? '').join(''))
    .join('\n')
}

test('the search finds a secret in each encoding', () => {
  const value = plantSecret('sanity')
  const text = Buffer.from(`abc ${value} def`)
  const forms = [
    text,
    text.toString('base64'),
    text.subarray(1).toString('base64'),
    text.subarray(2).toString('base64'),
    text.toString('hex'),
  ]
  expect(forms.map(findLeaks)).toEqual(forms.map(() => ['sanity']))
  expect(findLeaks(Buffer.concat([Buffer.alloc(5000, 7), Buffer.from(value), Buffer.alloc(9)]))).toEqual([
    'sanity',
  ])
  plantedSecrets.delete('sanity')
})

test('no file, reply, frame or log contains a secret', { timeout: 120_000 }, async () => {
  const ids = await runConversationsWithSecrets()
  await sendRejectedRequests()
  for (const id of ids) {
    for (const rest of ['', '/events/search', '/export?meta=true', '/agent_final_response'])
      await api.fetch(`/api/conversations/${id}${rest}`)
    for (const event of await driver.getEvents(id))
      await api.fetch(`/api/conversations/${id}/events/${event.id}`)
    const client = driver.openSocket(`/sockets/events/${id}?resend_mode=all`)
    clients.push(client)
    await client.waitUntil((events) => events.some(({ key }) => key === 'full_state'))
  }
  for (const path of [
    '/api/conversations/search?include_skills=true',
    '/api/profiles',
    '/api/profiles/canary',
    '/api/profiles/plain',
    '/server_info',
  ])
    await api.fetch(path)
  const shown = frames()
  for (const client of clients) await client[Symbol.asyncDispose]()

  // The provider received its secrets, so they were really in use.
  const reported = JSON.stringify(mockProvider.requests.map(({ headers }) => headers))
  for (const place of [
    'main-api-key',
    'main-header',
    'switched-api-key',
    'fallback-api-key',
    'profile-api-key',
    'title-api-key',
    'settings-api-key',
  ])
    expect([place, reported.includes(plantSecret(place))]).toEqual([place, true])

  const running = await findLeaksInFiles()
  await server.stop()
  expect({
    answers: findLeaks(responses),
    frames: findLeaks(shown.join('\n')),
    pieces: findLeaks(joinDeltas(shown)),
    running,
    log: findLeaks(server.output()),
    stopped: await findLeaksInFiles(),
  }).toEqual({ answers: [], frames: [], pieces: [], running: {}, log: [], stopped: {} })
  expect(responses).toContain('<secret-hidden>')
  await server.start()
  ;({ api, driver } = server)
})

/** Secrets in the files of the data directory, by file. */
async function findLeaksInFiles(): Promise<Record<string, string[]>> {
  const all: Record<string, string[]> = {}
  for (const file of await listFiles(data)) {
    if (file.endsWith('secret.key')) continue
    const places = findLeaks(await readFile(file))
    if (places.length > 0) all[file.slice(data.length + 1)] = places
  }
  return all
}

// Every process of a user can read the environment with which another was started.
test("the server's own keys are redacted in the output of a command", async () => {
  const { id } = await driver.create(
    {
      llm: scriptedModel([
        { tool_calls: [{ name: 'terminal', arguments: { command: 'cat /proc/$PPID/environ' } }] },
        'Done.',
      ]),
    },
    { initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
  )
  expect(findLeaks(JSON.stringify(await driver.waitUntilIdle(id)))).toEqual([])
})
