import { randomUUID } from 'node:crypto'
import { mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { findLeaks, ProcessListScanner, plantedSecrets, plantSecret } from '../support/canaries.ts'
import { MockProvider, type ScriptedReply } from '../support/mock-provider.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import {
  administrator,
  createUser,
  createUserKey,
  type ListPage,
  type User,
  waitFor,
} from '../support/sandbox-server/user.ts'
import { StaticGitHost } from '../support/static-git-host.ts'

/**
 * Plants secrets in every place that accepts one, and searches everything else for them.
 * `conformance/agent-server/secret-leaks.test.ts` does the same for agent servers.
 */

let directory: string
let server: SandboxServer
let mockProvider: MockProvider
let git: StaticGitHost
let ann: User
let processes: ProcessListScanner
/**
 * Every reply of the server, with the request; without the session keys for owners, and without new API keys.
 */
const responses: string[] = []

beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-canary-')))
  mockProvider = await MockProvider.open()
  git = await StaticGitHost.open(directory, leakySetupScript)
  server = await SandboxServer.prepare({
    env: {
      SLIPWAY_SECRET_KEY: plantSecret('secret-key'),
      SLIPWAY_LOG_LEVEL: 'debug',
      SLIPWAY_EXPOSE: 'relay',
      SLIPWAY_RECONCILE_SECONDS: '1',
      // The provider of the tests is on loopback.
      SLIPWAY_SANDBOX_NETWORK: 'shared',
      SLIPWAY_SANDBOX_SPECS: JSON.stringify(sandboxSpecs()),
      LLM_MODEL: 'openai-compatible/server',
      LLM_API_KEY: plantSecret('server-model-key'),
      LLM_BASE_URL: `${mockProvider.url.replace('//', `//user:${plantSecret('server-model-password')}@`)}/v1`,
      SOME_SERVICE_TOKEN: plantSecret('environment'),
    },
  })
  await server.start({ env: { SLIPWAY_API_KEY: `${server.key},${plantSecret('administrator-key')}` } })
  recordResponses(server)
  processes = new ProcessListScanner()
  ann = await createUser(server, { name: 'Ann' })
  plantedSecrets.set('user-key', ann.key)
}, 60_000)
afterAll(async () => {
  await processes?.[Symbol.asyncDispose]()
  await server?.[Symbol.asyncDispose]()
  await git?.[Symbol.asyncDispose]()
  await mockProvider?.[Symbol.asyncDispose]()
  await rm(directory, { recursive: true, force: true })
}, 120_000)

function sandboxSpecs(): object[] {
  const env = {
    COLOUR: 'blue',
    API_TOKEN: plantSecret('spec-token'),
    DB_PASSWORD: plantSecret('spec-password'),
  }
  const address = `postgres://user:${plantSecret('spec-url-password')}@db.test/x`
  const print = 'env; printf %s "$DB_PASSWORD" | base64; printf %s "$API_TOKEN" | od -An -tx1 | tr -d " \\n"'
  return [
    { id: 'plain', env },
    {
      id: 'crashing',
      env: { ...env, DATABASE_URL: address },
      command: ['/bin/sh', '-c', `${print}; echo; exit 3`],
    },
  ]
}

function recordResponses(recorded: SandboxServer): void {
  const fetch = recorded.fetch.bind(recorded)
  recorded.fetch = async (path, init) => {
    const response = await fetch(path, init)
    const copy = response.clone()
    const text = await copy.text()
    const isNewKey = init?.method === 'POST' && /\/keys$/.test(path) && copy.status === 201
    const shown = isNewKey
      ? ''
      : text.replaceAll(/"session_api_key":"([^"]+)"/g, '"session_api_key":"(reported)"')
    responses.push(`${init?.method ?? 'GET'} ${path} ${copy.status} ${[...copy.headers].join(' ')}\n${shown}`)
    for (const [, key] of text.matchAll(/"session_api_key":"([^"]+)"/g))
      if (![...plantedSecrets.values()].includes(String(key)))
        plantedSecrets.set(`session-key-${plantedSecrets.size}`, String(key))
    return response
  }
}

/** Of a long output only the end is reported, so short texts come last. */
const leakySetupScript = `find / -name login -newer .git/HEAD -exec cat {} + 2>/dev/null
cat /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'
git config --list --show-origin
cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -aE 'KEY|TOKEN|PASSWORD' | sort -u
echo "$API_TOKEN"
printf %s "$DB_PASSWORD" | base64
printf 'x%s' "$DB_PASSWORD" | base64
printf %s "$API_TOKEN" | od -An -tx1 -v | tr -d ' \\n'; echo
exit 3
`

/** A model with a secret in every setting that accepts one. */
function modelWithSecrets(location: string, more: object = {}): object {
  return mockProvider.llm('compatible', {
    api_key: plantSecret(`${location}-api-key`),
    aws_secret_access_key: plantSecret(`${location}-aws-secret`),
    aws_session_token: plantSecret(`${location}-aws-session`),
    extra_headers: {
      'x-service-auth': plantSecret(`${location}-header`),
      'x-bearer': `Bearer ${plantSecret(`${location}-bearer`)}`,
    },
    litellm_extra_body: { api_token: plantSecret(`${location}-body`) },
    num_retries: 0,
    ...more,
  })
}

/** A provider that refuses, and repeats the request in its error. */
const echoingReply: ScriptedReply = (response, { headers, body }) => {
  const message = `Refused: ${JSON.stringify(headers)} ${JSON.stringify({ api_token: body.api_token })}`
  response.writeHead(401, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ error: { message, type: 'authentication_error' } }))
}

const terminalReply = (command: string): ScriptedReply => ({
  calls: [{ name: 'terminal', arguments: { command } }],
})
const multiline = () => `-----BEGIN KEY-----\n${plantSecret('line-two')}\n-----END KEY-----`

/** Everything that a user may store. */
async function storeSecrets(): Promise<void> {
  const settings = {
    git_full_clone: true,
    git_user_name: 'Ann',
    search_api_key: plantSecret('search-key'),
    sandbox_api_key: plantSecret('sandbox-key'),
    my_service: {
      password: plantSecret('settings-password'),
      headers: { 'x-any': plantSecret('settings-any-header') },
    },
    agent_settings_diff: {
      llm: modelWithSecrets('settings'),
      critic: { kind: 'APIBasedCritic', server_url: mockProvider.url, api_key: plantSecret('critic') },
      mcp_config: {
        off: {
          url: `${mockProvider.url}/mcp?api_key=${plantSecret('mcp-query')}`,
          headers: { Authorization: `Bearer ${plantSecret('mcp-header')}` },
          auth: { token: plantSecret('mcp-auth') },
          disabled: true,
        },
        gone: {
          command: '/bin/false',
          args: ['--token', plantSecret('mcp-argument'), `--api-key=${plantSecret('mcp-pair')}`],
          env: { ANY_NAME: plantSecret('mcp-env') },
          disabled: true,
        },
      },
    },
  }
  await ann.requestOrThrow('POST', '/api/v1/settings', settings)
  const password = `${mockProvider.url.replace('//', `//user:${plantSecret('profile-url-password')}@`)}/v1`
  await ann.requestOrThrow('POST', '/api/v1/settings/profiles/canary', { llm: modelWithSecrets('profile') })
  await ann.requestOrThrow('POST', '/api/v1/settings/profiles/plain', {
    llm: modelWithSecrets('plain', { base_url: password }),
  })
  for (const [name, value] of Object.entries({ FIRST: plantSecret('user-secret'), MULTI: multiline() }))
    await ann.requestOrThrow('POST', '/api/v1/secrets', { name, value, description: `What ${name} is` })
  await ann.requestOrThrow('POST', '/api/v1/secrets', { name: 'RENAMED', value: plantSecret('renamed') })
  await ann.requestOrThrow('PUT', '/api/v1/secrets/RENAMED', { name: 'LAST' })
  await ann.requestOrThrow('POST', '/api/v1/secrets/git-providers', {
    provider_tokens: {
      gitlab: { token: plantSecret('gitlab'), host: git.url },
      forgejo: { token: `bot:${plantSecret('forgejo')}`, host: git.url },
      github: { token: plantSecret('github') },
    },
  })
  plantedSecrets.set(
    'second-key',
    (await ann.requestOrThrow<{ key: string }>('POST', '/api/keys', { name: 'two' })).key,
  )
  plantedSecrets.set(
    'bound-key',
    (await createUserKey(server, ann.id, { name: 'three', scopes: ['read'] })).key,
  )
}

/** A start with secrets in all of its members. */
function startRequest(more: object = {}): object {
  return {
    secrets: {
      PLAIN: plantSecret('start-plain'),
      STATIC: { kind: 'StaticSecret', value: plantSecret('start-static'), description: 'one' },
      LOOKUP: {
        kind: 'LookupSecret',
        url: `${mockProvider.url}/secret?key=${plantSecret('start-lookup-query')}`,
        headers: { 'x-token': plantSecret('start-lookup-header') },
      },
    },
    processors: [{ kind: 'Any', api_key: plantSecret('processor') }],
    plugins: [
      {
        source: `https://user:${plantSecret('plugin-password')}@plugins.test/x`,
        token: plantSecret('plugin'),
      },
    ],
    initial_message: { content: 'A message is no secret.' },
    ...more,
  }
}

/** Runs conversations that use secrets in every way; returns their ids. */
async function runConversationsWithSecrets(): Promise<string[]> {
  mockProvider.bodyForGet = plantSecret('lookup')
  mockProvider.replyWithoutTools = { text: 'A title' }
  mockProvider.replies = [
    terminalReply('echo "$FIRST $MULTI $LAST $PLAIN $STATIC $LOOKUP $GITHUB_TOKEN"; env'),
    terminalReply('cat /proc/$PPID/environ | tr "\\0" "\\n"'),
    { text: `I say ${plantSecret('user-secret')} and ${plantSecret('start-static')} aloud.` },
  ]
  const first = await ann.createConversation(startRequest({ plugins: [] }))
  await ann.waitForMessage(first.id, 'aloud')

  // A model that refuses, and names the key in its error.
  mockProvider.replies = [echoingReply]
  const refused = await ann.createConversation(startRequest({ sandbox_id: first.sandbox_id, plugins: [] }))
  await waitForConversationError(refused.id)
  await ann.requestOrThrow('POST', `${base}/${refused.id}/switch_profile`, { profile_name: 'canary' })
  await ann.sendMessage(refused.id, 'Once more.')
  await waitForConversationError(refused.id)
  // A user without settings has the model of the server.
  const bob = await createUser(server)
  plantedSecrets.set('other-key', bob.key)
  const { id } = await bob.createConversation(startRequest({ plugins: [] }))
  await waitForConversationError(id, bob)
  await bob.requestJson('GET', `/api/v1/conversation/${id}/events/export`)
  mockProvider.replies = [{ text: 'Well.' }]
  const profiled = await ann.createConversation({ llm_profile: 'plain', sandbox_id: first.sandbox_id })
  return [first.id, refused.id, profiled.id]
}

async function waitForConversationError(id: string, user = ann): Promise<void> {
  await waitFor('the end of the run is ingested', async () => {
    const path = `/api/v1/conversation/${id}/events/search?kind__eq=ConversationErrorEvent`
    return (await user.get<ListPage<unknown>>(path)).items.length > 0 ? true : undefined
  })
}

/** Starts that fail, or almost. */
async function startWithRepositories(sandbox: string): Promise<string> {
  for (const [provider, place] of [
    ['gitlab', 'gitlab'],
    ['forgejo', 'forgejo'],
  ] as const) {
    const startBody = startRequest({
      sandbox_id: sandbox,
      git_provider: provider,
      selected_repository: 'no/access',
    })
    const last = (await ann.startConversation(startBody)).at(-1)
    expect(last).toMatchObject({ status: 'ERROR' })
    expect(last?.detail).toMatch(/could not be cloned/)
    expect(git.logins.join()).toContain(plantSecret(place))
  }
  const startBody = startRequest({
    sandbox_id: sandbox,
    git_provider: 'gitlab',
    selected_repository: 'good/repo',
  })
  const last = (await ann.startConversation({ ...startBody, plugins: [] })).at(-1)
  expect(last).toMatchObject({ status: 'READY' })
  // The script ran and printed much.
  expect(last?.detail).toMatch(/setup\.sh failed with exit code 3/)
  return String(last?.app_conversation_id)
}

const base = '/api/v1/app-conversations'

/** Invalid requests with secrets in them. */
async function sendRejectedRequests(): Promise<void> {
  const llm = modelWithSecrets('refused')
  const bodies: readonly (readonly [string, unknown])[] = [
    [
      '/api/v1/settings',
      { agent_settings_diff: { llm: { ...llm, num_retries: plantSecret('refused-number') } } },
    ],
    ['/api/v1/settings', { agent_settings_diff: plantSecret('refused-settings') }],
    [
      '/api/v1/settings',
      { search_api_key: [plantSecret('refused-search')], disabled_skills: plantSecret('refused-skill') },
    ],
    ['/api/v1/settings/profiles/p', { llm: { ...llm, model: '' } }],
    ['/api/v1/settings/profiles/p', { llm: { ...llm, api_key: [plantSecret('refused-list')] } }],
    ['/api/v1/secrets', { name: 'A', value: [plantSecret('refused-value')] }],
    [
      '/api/v1/secrets',
      { name: `no name ${plantSecret('refused-name')}`, value: plantSecret('refused-value') },
    ],
    ['/api/v1/secrets', plantSecret('refused-secret')],
    ['/api/v1/secrets/git-providers', { provider_tokens: { github: plantSecret('refused-token') } }],
    ['/api/v1/secrets/git-providers', { provider_tokens: { cvs: { token: plantSecret('refused-token') } } }],
    [
      '/api/v1/secrets/git-providers',
      { provider_tokens: { gitlab: { host: `https://u:${plantSecret('refused-host')}@git.test` } } },
    ],
    ['/api/keys', { expires_at: plantSecret('refused-time') }],
    ['/api/keys', { scopes: [plantSecret('refused-scope')] }],
    [base, startRequest({ secrets: [plantSecret('refused-secrets')] })],
    [
      base,
      startRequest({
        secrets: { A: { kind: plantSecret('refused-kind'), value: plantSecret('refused-value') } },
      }),
    ],
    [base, startRequest({ secrets: { A: { value: [plantSecret('refused-list')] } } })],
    [base, startRequest({ secrets: { SLIPWAY_X: plantSecret('refused-value') } })],
    [
      base,
      startRequest({
        selected_repository: `https://user:${plantSecret('repository-password')}@git.test/a/b`,
      }),
    ],
    [
      base,
      startRequest({ selected_repository: `https://${plantSecret('repository-user')}@git.test/a/b.git` }),
    ],
    [
      base,
      startRequest({
        selected_repository: `https://git.test/a/b?access_token=${plantSecret('repository-query')}`,
      }),
    ],
    [base, startRequest({ llm_profile: 'nobody', selected_branch: `${plantSecret('refused-branch')}..` })],
    [`${base}/${randomUUID()}/send-message`, { content: { token: plantSecret('refused-message') } }],
    [`/api/v1/sandboxes?sandbox_spec_id=${plantSecret('refused-spec').slice(0, 4)}`, {}],
  ]
  for (const [path, body] of bodies) {
    const { status } = await ann.requestJson('POST', path, body)
    expect([path, JSON.stringify(body).slice(0, 60), status >= 400 && status < 500]).toEqual([
      path,
      JSON.stringify(body).slice(0, 60),
      true,
    ])
  }
  const patch = { selected_repository: `https://user:${plantSecret('patched-password')}@git.test/a/b` }
  const [some] = (await ann.get<ListPage<{ id: string }>>(`${base}/search`)).items
  expect((await ann.requestJson('PATCH', `${base}/${some?.id}`, patch)).status).toBe(422)
  for (const body of [
    `{"api_key": "${plantSecret('broken-json')}"`,
    `"${plantSecret('broken-json')}`,
    plantSecret('broken-json'),
  ]) {
    for (const path of ['/api/v1/settings', '/api/v1/secrets', base]) {
      const headers = { authorization: `Bearer ${ann.key}`, 'content-type': 'application/json' }
      expect((await server.fetch(path, { method: 'POST', headers, body })).status).toBe(422)
    }
  }
  await sendWrongKeys()
}

/** Invalid keys, in every place for one. */
async function sendWrongKeys(): Promise<void> {
  const wrong = plantSecret('wrong-key')
  for (const headers of [
    { authorization: `Bearer ${wrong}` },
    { authorization: `Basic ${Buffer.from(`x:${wrong}`).toString('base64')}` },
    { 'x-session-api-key': wrong },
    { 'x-access-token': wrong },
    { 'x-access-token': wrong, cookie: `api_key=${wrong}`, 'x-org-id': wrong },
  ])
    for (const path of [
      '/api/v1/sandboxes/search',
      `/api/v1/sandboxes/x/settings/secrets/${wrong.slice(0, 4)}`,
    ])
      expect((await server.fetch(path, { headers })).status).toBe(401)
  const headers = { 'x-session-api-key': wrong, 'content-type': 'application/json' }
  for (const path of ['conversations', `events/${randomUUID()}`]) {
    const body = JSON.stringify([{ token: wrong }])
    const { status } = await server.fetch(`/api/v1/webhooks/${path}`, { method: 'POST', headers, body })
    expect(status).toBe(401)
  }
  const url = `${server.url.replace(/^http/, 'ws')}/sandboxes/x/agent/sockets/events/x?session_api_key=${wrong}`
  const socket = new WebSocket(url, { headers: { 'x-session-api-key': wrong } })
  await new Promise((resolve) => socket.once('error', resolve).once('close', resolve))
}

/** Everything that can be read. */
async function readEverything(ids: readonly string[], sandboxes: readonly string[]): Promise<void> {
  for (const path of [
    '/api/v1/settings',
    '/api/v1/users/me',
    '/api/v1/settings/profiles',
    '/api/v1/settings/profiles/canary',
    '/api/v1/settings/profiles/plain',
    '/api/v1/secrets/search',
    '/api/keys',
    '/api/keys/current',
    '/api/quota/status',
    '/api/v1/sandboxes/search',
    '/api/v1/sandbox-specs/search',
    `${base}/search`,
    `${base}/start-tasks/search`,
    '/server_info',
    '/ready',
  ])
    await ann.get(path)
  for (const sandbox of sandboxes) await ann.get(`/api/v1/sandboxes?id=${sandbox}`)
  for (const id of ids) {
    for (const rest of ['events/search', 'events/count', 'events/export?meta=true'])
      await ann.requestJson('GET', `/api/v1/conversation/${id}/${rest}`)
    for (const rest of ['download', 'skills', 'hooks', 'file?file_path=.openhands/setup.sh'])
      await ann.requestJson('GET', `${base}/${id}/${rest}`)
    await ann.get(`${base}?ids=${id}`)
  }
}

/** Secrets in the files of the data directory, by file, except in the sandboxes' own folders. */
async function findLeaksInFiles(): Promise<Record<string, string[]>> {
  const all: Record<string, string[]> = {}
  for (const entry of await readdir(server.data, { withFileTypes: true })) {
    const isFolder = entry.isDirectory()
    if (entry.name === 'sandboxes' || entry.name === 'code') continue
    const path = join(server.data, entry.name)
    const below = isFolder ? await readdir(path, { recursive: true }) : ['']
    for (const name of below) {
      const places = findLeaks(await readFile(join(path, name)).catch(() => ''))
      if (places.length > 0) all[join(entry.name, name)] = places
    }
  }
  return all
}

/** Where a sandbox may read its owner's secrets, and where not. */
async function expectEntitledAccess(sandbox: string): Promise<void> {
  const box = await ann.waitForSandbox(sandbox, 'RUNNING')
  const headers = { 'x-session-api-key': String(box.session_api_key) }
  const fetchText = async (path: string, more: Record<string, string> = {}) => {
    const response = await fetch(`${server.url}${path}`, { headers: { ...headers, ...more } })
    return await response.text()
  }
  const secrets = `/api/v1/sandboxes/${sandbox}/settings/secrets`
  await server.fetch(secrets, { headers })
  expect(await fetchText(`${secrets}/FIRST`)).toBe(plantSecret('user-secret'))
  expect(await fetchText(`${secrets}/gitlab_token`)).toBe(plantSecret('gitlab'))
  const me = '/api/v1/users/me?expose_secrets=true'
  expect(await fetchText(me, { authorization: `Bearer ${ann.key}` })).toContain(
    plantSecret('settings-api-key'),
  )
  const stranger = await createUser(server)
  plantedSecrets.set('stranger-key', stranger.key)
  expect((await stranger.requestJson('GET', me, undefined, headers)).status).toBe(403)
  expect((await ann.requestJson('GET', me)).status).toBe(401)
}

test('no reply, log, file, task, event or process list contains a secret', async () => {
  await storeSecrets()
  const ids = await runConversationsWithSecrets()
  const [first] = await ann.get<({ sandbox_id: string } | null)[]>(`${base}?ids=${ids[0]}`)
  const sandbox = String(first?.sandbox_id)
  ids.push(await startWithRepositories(sandbox))
  await expectEntitledAccess(sandbox)

  // A sandbox that ends on its own and prints everything it knows, alone and in a start.
  const { id: crashing } = await ann.requestOrThrow<{ id: string }>(
    'POST',
    '/api/v1/sandboxes?sandbox_spec_id=crashing',
  )
  const crashed = await ann.waitForSandbox(crashing, 'ERROR')
  expect(crashed.status_detail).toContain('COLOUR=blue')
  const start = (await ann.startConversation(startRequest({ sandbox_spec_id: 'crashing', plugins: [] }))).at(
    -1,
  )
  expect(start).toMatchObject({ status: 'ERROR' })
  expect(start?.detail).toContain('COLOUR=blue')
  await sendRejectedRequests()
  await ann.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox}/pause`)
  await readEverything(ids, [sandbox, crashing])
  await server.stop('SIGKILL')
  expect(await findLeaksInFiles()).toEqual({})
  await server.start()
  await ann.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox}/resume`)
  await ann.waitForSandbox(sandbox, 'RUNNING')
  await readEverything(ids, [sandbox])
  for (const path of ['/api/admin/users', '/api/admin/organizations']) await administrator(server).get(path)
  for (const id of [sandbox, crashing]) await ann.requestOrThrow('DELETE', `/api/v1/sandboxes/${id}`)
  await readEverything(ids, [])
  const running = await findLeaksInFiles()
  await server.stop()

  // The secrets were really in use, and the process list was really read.
  const reported = JSON.stringify(mockProvider.requests.map(({ headers, body }) => [headers, body.api_token]))
  for (const place of [
    'settings-api-key',
    'settings-header',
    'settings-bearer',
    'settings-body',
    'profile-api-key',
  ])
    expect([place, reported.includes(plantSecret(place))]).toEqual([place, true])
  expect(processes.scannedCount).toBeGreaterThan(5_000)
  expect(plantedSecrets.size).toBeGreaterThan(60)
  const tasks = responses.filter((text) => text.includes('start-tasks/search'))
  expect(tasks.join()).toContain('A message is no secret.')
  expect({
    answers: responses.flatMap((text) => findLeaks(text).map((place) => `${place} in ${text.slice(0, 100)}`)),
    log: findLeaks(server.output()),
    running,
    stopped: await findLeaksInFiles(),
    processes: [...processes.leaks],
  }).toEqual({ answers: [], log: [], running: {}, stopped: {}, processes: [] })
}, 300_000)

test('the search finds a secret in each encoding', () => {
  const value = plantSecret('sanity')
  const text = Buffer.from(`abc ${value} def`)
  const forms = [0, 1, 2].map((shift) => text.subarray(shift).toString('base64'))
  for (const form of [String(text), ...forms, text.toString('hex')])
    expect(findLeaks(form)).toEqual(['sanity'])
  plantedSecrets.delete('sanity')
})
