import { mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { brief, type Client, Driver, scripted } from '../support/agent-driver.ts'
import { startServer } from '../support/agent-server.ts'
import { Api } from '../support/agent-server-api.ts'
import { leaks, plant, planted } from '../support/canaries.ts'
import { FarModel, type Play } from '../support/mock-provider.ts'

let data: string
let directory: string
let server: Awaited<ReturnType<typeof startServer>>
let api: Api
let drive: Driver
let far: FarModel
/** Every answer that a caller got. */
let answers = ''

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'slipway-canary-'))
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-canary-work-')))
  far = await FarModel.open()
  await start()
})
afterAll(async () => {
  await server.stop()
  await far[Symbol.asyncDispose]()
  for (const path of [data, directory]) await rm(path, { recursive: true, force: true })
})

async function start(): Promise<void> {
  server = await startServer(data, {
    SLIPWAY_SESSION_API_KEY: plant('session-key'),
    SLIPWAY_SECRET_KEY: plant('secret-key'),
    SLIPWAY_LOG_LEVEL: 'debug',
    SOME_SERVICE_TOKEN: plant('environment'),
  })
  const there = {
    url: server.url,
    headers: { 'x-session-api-key': plant('session-key') },
    [Symbol.asyncDispose]: async () => {},
  }
  api = new (class extends Api {
    override async fetch(path: string, init?: RequestInit): Promise<Response> {
      const response = await super.fetch(path, init)
      const copy = response.clone()
      answers += `\n${copy.status} ${[...copy.headers].join(' ')}\n${await copy.text()}`
      return response
    }
  })(there)
  drive = new Driver({ api, server: there, directory })
}

/** A model whose settings hold a secret in every place that takes one. */
function secretive(place: string, more: object = {}): object {
  return far.llm('compatible', {
    api_key: plant(`${place}-api-key`),
    aws_access_key_id: plant(`${place}-aws-id`),
    aws_secret_access_key: plant(`${place}-aws-secret`),
    aws_session_token: plant(`${place}-aws-session`),
    extra_headers: {
      'x-service-auth': plant(`${place}-header`),
      'x-bearer': `Bearer ${plant(`${place}-bearer`)}`,
    },
    litellm_extra_body: { api_token: plant(`${place}-body`) },
    num_retries: 0,
    usage_id: place,
    ...more,
  })
}

/** A provider that refuses and says all that it was sent. */
const echo: Play = (response, { headers, body }) => {
  const { api_token } = body
  const message = `Refused: ${JSON.stringify(headers)} ${JSON.stringify({ api_token })}`
  response.writeHead(401, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ error: { message, type: 'authentication_error' } }))
}

const run = (command: string): Play => ({ calls: [{ name: 'terminal', arguments: { command } }] })

/** An MCP server over its standard streams that gives away what it knows. */
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

const multiline = () => `-----BEGIN KEY-----\n${plant('line-two')}\n-----END "KEY" \\-----`
const clients: Client[] = []
const frames = () => clients.flatMap((client) => client.frames)

/** Conversations that meet secrets in every way; resolves when nothing runs any more. */
async function provoke(): Promise<string[]> {
  await writeFile(join(directory, 'mcp.mjs'), mcpServer)
  await writeFile(join(directory, 'notes.txt'), `the file says ${plant('static')}\n`)
  const ids: string[] = []

  // A run with all kinds of secrets, tools that print them, and a model that says them in pieces.
  far.page = plant('lookup')
  far.aside = { text: `A title with ${plant('static')}` }
  far.plays = [
    run('echo "$STATIC" "$CONTEXT"; env; cat notes.txt; echo "$LOOKUP"'),
    run(`echo ${plant('static')} ${plant('tool-params')} ; env | sort`),
    run(
      `echo ${['main-bearer', 'main-header', 'mcp-header', 'mcp-query', 'mcp-auth', 'critic'].map(plant).join(' ')}`,
    ),
    run('printf "%s" "$MULTI" | tee key.pem; cat key.pem | tr -d x'),
    { calls: [{ name: 'file_editor', arguments: { command: 'view', path: join(directory, 'notes.txt') } }] },
    {
      calls: [
        {
          name: 'file_editor',
          arguments: {
            command: 'create',
            path: join(directory, 'new.txt'),
            file_text: `x ${plant('context')}`,
          },
        },
      ],
    },
    { calls: [{ name: 'grep', arguments: { pattern: plant('static') } }] },
    {
      calls: [
        { name: 'think', arguments: { thought: `The value is ${plant('static')} and ${multiline()}` } },
      ],
    },
    { calls: [{ name: 'tell', arguments: { what: '$STATIC and $CONTEXT' } }] },
    { calls: [{ name: 'no_such', arguments: { [plant('static')]: plant('context') } }] },
    { calls: [{ name: 'terminal', arguments: `{"command": "echo ${plant('static')}` }] },
    {
      text: `I say ${plant('static')} aloud.`,
      reasoning: `I think of ${plant('context')} long.`,
      calls: [{ name: 'finish', arguments: { message: `Bye ${plant('lookup')}` } }],
    },
  ]
  const { id } = await drive.create(
    {
      llm: secretive('main', { stream: true, log_completions: true }),
      tools: [
        { name: 'terminal', params: { env: { TOOL_TOKEN: plant('tool-params') } } },
        { name: 'file_editor' },
        { name: 'grep' },
      ],
      condenser: { kind: 'LLMSummarizingCondenser', llm: secretive('condenser'), max_size: 100 },
      critic: { kind: 'APIBasedCritic', server_url: far.url, api_key: plant('critic'), model_name: 'm' },
      mcp_config: {
        leaky: {
          command: process.execPath,
          args: [join(directory, 'mcp.mjs')],
          env: { MCP_TOKEN: plant('mcp-env') },
        },
        off: {
          url: `${far.url}/mcp?api_key=${plant('mcp-query')}`,
          headers: { Authorization: `Bearer ${plant('mcp-header')}` },
          auth: { token: plant('mcp-auth') },
          disabled: true,
        },
      },
      agent_context: {
        secrets: { CONTEXT: plant('context') },
        system_message_suffix: `Keep ${plant('static')}.`,
      },
    },
    {
      autotitle: true,
      secrets: {
        STATIC: { kind: 'StaticSecret', value: plant('static'), description: 'a static one' },
        LOOKUP: {
          kind: 'LookupSecret',
          url: `${far.url}/secret?key=${plant('lookup-query')}`,
          headers: { 'x-token': plant('lookup-header') },
        },
        MULTI: multiline(),
      },
      hook_config: {
        pre_tool_use: [
          { matcher: 'grep', hooks: [{ command: `echo "hook ${plant('static')}" >&2; exit 3` }] },
        ],
      },
    },
  )
  ids.push(id)
  for (const path of [
    `/sockets/events/${id}`,
    `/sockets/events/${id}?after=0&session_api_key=${plant('session-key')}`,
  ]) {
    const client = drive.open(path)
    clients.push(client)
    await new Promise((done) => client.socket.once('open', done))
  }
  await drive.say(id, `Begin, and remember ${plant('static')}.`)
  const hints = api.fetch(`/api/conversations/${id}/events/stream?until=idle&hints=true`)
  expect((await drive.rest(id)).map(brief).at(-1)).toBe('execution_status=finished')
  await (await hints).text()
  await drive.post(id, 'generate_title', { llm: secretive('title') })
  await drive.post(id, 'ask_agent', { question: `What of ${plant('static')}?` })
  far.aside = echo
  await drive.post(id, 'ask_agent', { question: 'And now?' })
  await drive.post(id, 'generate_title', { llm: secretive('title') })
  await drive.post(id, 'condense')

  // Changes on the way, with a provider that echoes what it gets, in the run and after it.
  await drive.post(id, 'secrets', {
    secrets: {
      LATER: plant('later'),
      OTHER: { url: `${far.url}/secret`, headers: { a: plant('later-header') } },
    },
  })
  far.plays = [run('echo "$LATER"'), echo]
  await drive.post(id, 'switch_llm', {
    llm: secretive('switched', { fallback_strategy: { fallback_llms: [secretive('fallback')] } }),
  })
  await drive.say(id, `And ${plant('later')}.`)
  expect((await drive.rest(id)).map(brief).at(-1)).toBe('ConversationErrorEvent:LLMAuthenticationError')
  await api.send('POST', '/api/profiles/canary', { llm: secretive('profile'), include_secrets: true })
  await api.send('POST', '/api/profiles/plain', { llm: secretive('profile-plain'), include_secrets: false })
  await drive.post(id, 'switch_profile', { profile_name: 'canary' })
  await drive.say(id, 'Once more.')
  await drive.rest(id)
  ids.push(((await drive.post(id, 'fork')).body as { id: string }).id)

  // MCP servers that do not start and say why.
  const broken = [
    {
      url: `${far.url}/mcp?api_key=${plant('bad-mcp-query')}`,
      headers: { Authorization: `Bearer ${plant('bad-mcp-header')}` },
    },
    {
      command: process.execPath,
      args: ['-e', 'console.error(process.env.BAD); console.log(process.env.BAD); process.exit(1)'],
      env: { BAD: plant('bad-mcp-env') },
    },
  ]
  for (const bad of broken) {
    const made = await drive.create(
      { llm: scripted(['x']), mcp_config: { bad } },
      { initial_message: { content: 'Begin.' } },
    )
    expect((await drive.rest(made.id)).map(brief).at(-1)).toMatch(/^ConversationErrorEvent/)
    ids.push(made.id)
  }

  // A password in an address, and settings by agent_settings.
  const base_url = `${far.url.replace('//', `//user:${plant('url-password')}@`)}/v1`
  const made = await drive.create(
    { llm: secretive('in-url', { base_url }) },
    { initial_message: { content: `Go ${plant('in-url-api-key')}` } },
  )
  await drive.rest(made.id)
  ids.push(made.id)
  far.plays = [echo]
  const settings = (await api.send('POST', '/api/conversations', {
    agent_settings: {
      llm: secretive('settings'),
      verification: {
        critic_enabled: true,
        critic_server_url: far.url,
        critic_api_key: plant('settings-critic'),
      },
    },
    workspace: { working_dir: directory },
    initial_message: { content: 'Begin.' },
  })) as { body: { id: string } }
  await drive.rest(settings.body.id)
  ids.push(settings.body.id)
  return ids
}

/** Requests that are refused, with secrets in them. */
async function fail(): Promise<void> {
  const llm = secretive('refused')
  const workspace = { working_dir: directory }
  const bodies: readonly (readonly [string, unknown])[] = [
    ['/api/conversations', { agent: { llm: { ...llm, model: '' } }, workspace }],
    ['/api/conversations', { agent: { llm: { ...llm, num_retries: plant('refused-number') } }, workspace }],
    ['/api/conversations', { agent: { llm, mcp_config: { a: { env: plant('refused-env') } } }, workspace }],
    [
      '/api/conversations',
      { agent: { llm, mcp_config: { a: { env: { X: [plant('refused-env')] } } } }, workspace },
    ],
    ['/api/conversations', { agent: { llm, kind: plant('refused-kind') }, workspace }],
    [
      '/api/conversations',
      { agent: { llm }, workspace, secrets: { A: { kind: plant('refused-secret'), value: 'x' } } },
    ],
    ['/api/conversations', { agent: { llm }, workspace, secrets: [plant('refused-secret')] }],
    ['/api/conversations', { agent: { llm }, workspace, hook_config: { stop: plant('refused-hook') } }],
    ['/api/conversations', { agent_settings: { llm: { ...llm, model: 1 } }, workspace }],
    ['/api/profiles/p', { llm: { ...llm, model: '' } }],
    ['/api/profiles/..', { llm }],
  ]
  for (const [path, body] of bodies)
    expect((await api.send('POST', path, body)).status).toBeGreaterThanOrEqual(400)
  const texts = [
    `{"agent": {"llm": {"api_key": "${plant('broken-json')}"`,
    `"${plant('broken-json')}`,
    plant('broken-json'),
  ]
  for (const body of texts) {
    const headers = { 'content-type': 'application/json' }
    expect((await api.fetch('/api/conversations', { method: 'POST', headers, body })).status).toBe(422)
  }
  const wrong = { 'x-session-api-key': plant('wrong-session-key') }
  expect((await api.fetch('/api/conversations/count', { headers: wrong })).status).toBe(401)
  await api.fetch(`/api/conversations/count?session_api_key=${plant('session-key')}`)
}

async function filesOf(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  return entries.flatMap((entry) => (entry.isFile() ? [join(entry.parentPath, entry.name)] : []))
}

/** Pieces of an answer one after another, as somebody would put them together. */
function joined(texts: readonly string[]): string {
  const deltas = texts.map((text) => JSON.parse(text)).map((frame) => frame.hint ?? frame)
  const pieces = deltas.filter(({ kind }) => kind === 'StreamingDeltaEvent')
  return ['content', 'reasoning_content']
    .map((name) => pieces.map((piece) => piece[name] ?? '').join(''))
    .join('\n')
}

test('the search finds a secret in each form that it looks for', () => {
  const value = plant('sanity')
  const text = Buffer.from(`abc ${value} def`)
  const forms = [
    text,
    text.toString('base64'),
    text.subarray(1).toString('base64'),
    text.subarray(2).toString('base64'),
    text.toString('hex'),
  ]
  expect(forms.map(leaks)).toEqual(forms.map(() => ['sanity']))
  expect(leaks(Buffer.concat([Buffer.alloc(5000, 7), Buffer.from(value), Buffer.alloc(9)]))).toEqual([
    'sanity',
  ])
  planted.delete('sanity')
})

test('no secret is found anywhere: in no file, answer, frame or log', { timeout: 120_000 }, async () => {
  const ids = await provoke()
  await fail()
  for (const id of ids) {
    for (const rest of ['', '/events/search', '/export?meta=true', '/agent_final_response'])
      await api.fetch(`/api/conversations/${id}${rest}`)
    for (const event of await drive.events(id)) await api.fetch(`/api/conversations/${id}/events/${event.id}`)
    const client = drive.open(`/sockets/events/${id}?resend_mode=all`)
    clients.push(client)
    await client.until((events) => events.some(({ key }) => key === 'full_state'))
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

  // The far side was told what it needs, so the secrets were really in use.
  const told = JSON.stringify(far.asked.map(({ headers }) => headers))
  for (const place of [
    'main-api-key',
    'main-header',
    'switched-api-key',
    'fallback-api-key',
    'profile-api-key',
    'title-api-key',
    'settings-api-key',
  ])
    expect([place, told.includes(plant(place))]).toEqual([place, true])

  const running = await found()
  await server.stop()
  expect({
    answers: leaks(answers),
    frames: leaks(shown.join('\n')),
    pieces: leaks(joined(shown)),
    running,
    log: leaks(server.output()),
    stopped: await found(),
  }).toEqual({ answers: [], frames: [], pieces: [], running: {}, log: [], stopped: {} })
  expect(answers).toContain('<secret-hidden>')
  await start()
})

/** Secrets in the files of the data directory, by file. */
async function found(): Promise<Record<string, string[]>> {
  const all: Record<string, string[]> = {}
  for (const file of await filesOf(data)) {
    if (file.endsWith('secret.key')) continue
    const places = leaks(await readFile(file))
    if (places.length > 0) all[file.slice(data.length + 1)] = places
  }
  return all
}

// The environment that a process was started with can be read by every process of its user.
test('the keys of the server itself are hidden in what a command prints', async () => {
  const { id } = await drive.create(
    {
      llm: scripted([
        { tool_calls: [{ name: 'terminal', arguments: { command: 'cat /proc/$PPID/environ' } }] },
        'Done.',
      ]),
    },
    { initial_message: { content: 'Begin.' } },
  )
  expect(leaks(JSON.stringify(await drive.rest(id)))).toEqual([])
})
