import { randomUUID } from 'node:crypto'
import { mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { leaks, ProcessList, plant, planted } from '../support/canaries.ts'
import { FarModel, type Play } from '../support/mock-provider.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import {
  administrator,
  eventually,
  makeUser,
  type PageOf,
  type User,
  withKey,
} from '../support/sandbox-server/user.ts'
import { GitHost } from '../support/static-git-host.ts'

/** Secrets in every place that takes one, and nowhere else afterwards. What agent servers do with theirs is in `canary.test.ts`. */

let directory: string
let server: SandboxServer
let far: FarModel
let git: GitHost
let ann: User
let processes: ProcessList
/** Every answer of the server, with the request; without the session keys that an owner is told, and without new API keys. */
const answers: string[] = []

beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-canary-')))
  far = await FarModel.open()
  git = await GitHost.open(directory, printing)
  server = await SandboxServer.prepare({
    env: {
      SLIPWAY_SECRET_KEY: plant('secret-key'),
      SLIPWAY_LOG_LEVEL: 'debug',
      SLIPWAY_EXPOSE: 'relay',
      SLIPWAY_RECONCILE_SECONDS: '1',
      SLIPWAY_SANDBOX_SPECS: JSON.stringify(specs()),
      LLM_MODEL: 'openai-compatible/server',
      LLM_API_KEY: plant('server-model-key'),
      LLM_BASE_URL: `${far.url.replace('//', `//user:${plant('server-model-password')}@`)}/v1`,
      SOME_SERVICE_TOKEN: plant('environment'),
    },
  })
  await server.start({ env: { SLIPWAY_API_KEY: `${server.key},${plant('administrator-key')}` } })
  record(server)
  processes = new ProcessList()
  ann = await makeUser(server, { name: 'Ann' })
  planted.set('user-key', ann.key)
}, 60_000)
afterAll(async () => {
  await processes?.[Symbol.asyncDispose]()
  await server?.[Symbol.asyncDispose]()
  await git?.[Symbol.asyncDispose]()
  await far?.[Symbol.asyncDispose]()
  await rm(directory, { recursive: true, force: true })
}, 120_000)

function specs(): object[] {
  const env = {
    COLOUR: 'blue',
    API_TOKEN: plant('spec-token'),
    DB_PASSWORD: plant('spec-password'),
  }
  const address = `postgres://user:${plant('spec-url-password')}@db.test/x`
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

function record(recorded: SandboxServer): void {
  const fetch = recorded.fetch.bind(recorded)
  recorded.fetch = async (path, init) => {
    const response = await fetch(path, init)
    const copy = response.clone()
    const text = await copy.text()
    const isNewKey = init?.method === 'POST' && /\/keys$/.test(path) && copy.status === 201
    const shown = isNewKey
      ? ''
      : text.replaceAll(/"session_api_key":"([^"]+)"/g, '"session_api_key":"(told)"')
    answers.push(`${init?.method ?? 'GET'} ${path} ${copy.status} ${[...copy.headers].join(' ')}\n${shown}`)
    for (const [, key] of text.matchAll(/"session_api_key":"([^"]+)"/g))
      if (![...planted.values()].includes(String(key)))
        planted.set(`session-key-${planted.size}`, String(key))
    return response
  }
}

/** Of much the end is told, so what is short comes last. */
const printing = `find / -name login -newer .git/HEAD -exec cat {} + 2>/dev/null
cat /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'
git config --list --show-origin
cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -aE 'KEY|TOKEN|PASSWORD' | sort -u
echo "$API_TOKEN"
printf %s "$DB_PASSWORD" | base64
printf 'x%s' "$DB_PASSWORD" | base64
printf %s "$API_TOKEN" | od -An -tx1 -v | tr -d ' \\n'; echo
exit 3
`

/** A model whose settings hold a secret in every place that takes one. */
function secretive(place: string, more: object = {}): object {
  return far.llm('compatible', {
    api_key: plant(`${place}-api-key`),
    aws_secret_access_key: plant(`${place}-aws-secret`),
    aws_session_token: plant(`${place}-aws-session`),
    extra_headers: {
      'x-service-auth': plant(`${place}-header`),
      'x-bearer': `Bearer ${plant(`${place}-bearer`)}`,
    },
    litellm_extra_body: { api_token: plant(`${place}-body`) },
    num_retries: 0,
    ...more,
  })
}

/** A provider that refuses and says all that it was sent. */
const echo: Play = (response, { headers, body }) => {
  const message = `Refused: ${JSON.stringify(headers)} ${JSON.stringify({ api_token: body.api_token })}`
  response.writeHead(401, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ error: { message, type: 'authentication_error' } }))
}

const run = (command: string): Play => ({ calls: [{ name: 'terminal', arguments: { command } }] })
const multiline = () => `-----BEGIN KEY-----\n${plant('line-two')}\n-----END KEY-----`

/** Everything that a user may store. */
async function store(): Promise<void> {
  const settings = {
    git_full_clone: true,
    git_user_name: 'Ann',
    search_api_key: plant('search-key'),
    sandbox_api_key: plant('sandbox-key'),
    my_service: { password: plant('settings-password'), headers: { 'x-any': plant('settings-any-header') } },
    agent_settings_diff: {
      llm: secretive('settings'),
      critic: { kind: 'APIBasedCritic', server_url: far.url, api_key: plant('critic') },
      mcp_config: {
        off: {
          url: `${far.url}/mcp?api_key=${plant('mcp-query')}`,
          headers: { Authorization: `Bearer ${plant('mcp-header')}` },
          auth: { token: plant('mcp-auth') },
          disabled: true,
        },
        gone: {
          command: '/bin/false',
          args: ['--token', plant('mcp-argument'), `--api-key=${plant('mcp-pair')}`],
          env: { ANY_NAME: plant('mcp-env') },
          disabled: true,
        },
      },
    },
  }
  await ann.must('POST', '/api/v1/settings', settings)
  const password = `${far.url.replace('//', `//user:${plant('profile-url-password')}@`)}/v1`
  await ann.must('POST', '/api/v1/settings/profiles/canary', { llm: secretive('profile') })
  await ann.must('POST', '/api/v1/settings/profiles/plain', {
    llm: secretive('plain', { base_url: password }),
  })
  for (const [name, value] of Object.entries({ FIRST: plant('user-secret'), MULTI: multiline() }))
    await ann.must('POST', '/api/v1/secrets', { name, value, description: `What ${name} is` })
  await ann.must('POST', '/api/v1/secrets', { name: 'RENAMED', value: plant('renamed') })
  await ann.must('PUT', '/api/v1/secrets/RENAMED', { name: 'LAST' })
  await ann.must('POST', '/api/v1/secrets/git-providers', {
    provider_tokens: {
      gitlab: { token: plant('gitlab'), host: git.url },
      forgejo: { token: `bot:${plant('forgejo')}`, host: git.url },
      github: { token: plant('github') },
    },
  })
  planted.set('second-key', (await ann.must<{ key: string }>('POST', '/api/keys', { name: 'two' })).key)
  planted.set('bound-key', (await withKey(server, ann.id, { name: 'three', scopes: ['read'] })).key)
}

/** A start with secrets in all of its members. */
function request(more: object = {}): object {
  return {
    secrets: {
      PLAIN: plant('start-plain'),
      STATIC: { kind: 'StaticSecret', value: plant('start-static'), description: 'one' },
      LOOKUP: {
        kind: 'LookupSecret',
        url: `${far.url}/secret?key=${plant('start-lookup-query')}`,
        headers: { 'x-token': plant('start-lookup-header') },
      },
    },
    processors: [{ kind: 'Any', api_key: plant('processor') }],
    plugins: [{ source: `https://user:${plant('plugin-password')}@plugins.test/x`, token: plant('plugin') }],
    initial_message: { content: 'A message is no secret.' },
    ...more,
  }
}

/** Conversations that meet secrets in every way; answers their ids. */
async function converse(): Promise<string[]> {
  far.page = plant('lookup')
  far.aside = { text: 'A title' }
  far.plays = [
    run('echo "$FIRST $MULTI $LAST $PLAIN $STATIC $LOOKUP $GITHUB_TOKEN"; env'),
    run('cat /proc/$PPID/environ | tr "\\0" "\\n"'),
    { text: `I say ${plant('user-secret')} and ${plant('start-static')} aloud.` },
  ]
  const first = await ann.ready(request({ plugins: [] }))
  await ann.untilSaid(first.id, 'aloud')

  // A model that refuses, and says to whom.
  far.plays = [echo]
  const refused = await ann.ready(request({ sandbox_id: first.sandbox_id, plugins: [] }))
  await failed(refused.id)
  await ann.must('POST', `${base}/${refused.id}/switch_profile`, { profile_name: 'canary' })
  await ann.send(refused.id, 'Once more.')
  await failed(refused.id)
  // Somebody who has set nothing gets the model of the server.
  const bob = await makeUser(server)
  planted.set('other-key', bob.key)
  const { id } = await bob.ready(request({ plugins: [] }))
  await failed(id, bob)
  await bob.call('GET', `/api/v1/conversation/${id}/events/export`)
  far.plays = [{ text: 'Well.' }]
  const profiled = await ann.ready({ llm_profile: 'plain', sandbox_id: first.sandbox_id })
  return [first.id, refused.id, profiled.id]
}

async function failed(id: string, user = ann): Promise<void> {
  await eventually('its end has come home', async () => {
    const path = `/api/v1/conversation/${id}/events/search?kind__eq=ConversationErrorEvent`
    return (await user.get<PageOf<unknown>>(path)).items.length > 0 ? true : undefined
  })
}

/** Starts that fail or nearly do. */
async function clone(sandbox: string): Promise<string> {
  for (const [provider, place] of [
    ['gitlab', 'gitlab'],
    ['forgejo', 'forgejo'],
  ] as const) {
    const asked = request({ sandbox_id: sandbox, git_provider: provider, selected_repository: 'no/access' })
    const last = (await ann.start(asked)).at(-1)
    expect(last).toMatchObject({ status: 'ERROR' })
    expect(last?.detail).toMatch(/could not be cloned/)
    expect(git.logins.join()).toContain(plant(place))
  }
  const asked = request({ sandbox_id: sandbox, git_provider: 'gitlab', selected_repository: 'good/repo' })
  const last = (await ann.start({ ...asked, plugins: [] })).at(-1)
  expect(last).toMatchObject({ status: 'READY' })
  // The script was run and printed much.
  expect(last?.detail).toMatch(/setup\.sh failed with exit code 3/)
  return String(last?.app_conversation_id)
}

const base = '/api/v1/app-conversations'

/** Requests that are refused, with secrets in them. */
async function fail(): Promise<void> {
  const llm = secretive('refused')
  const bodies: readonly (readonly [string, unknown])[] = [
    ['/api/v1/settings', { agent_settings_diff: { llm: { ...llm, num_retries: plant('refused-number') } } }],
    ['/api/v1/settings', { agent_settings_diff: plant('refused-settings') }],
    [
      '/api/v1/settings',
      { search_api_key: [plant('refused-search')], disabled_skills: plant('refused-skill') },
    ],
    ['/api/v1/settings/profiles/p', { llm: { ...llm, model: '' } }],
    ['/api/v1/settings/profiles/p', { llm: { ...llm, api_key: [plant('refused-list')] } }],
    ['/api/v1/secrets', { name: 'A', value: [plant('refused-value')] }],
    ['/api/v1/secrets', { name: `no name ${plant('refused-name')}`, value: plant('refused-value') }],
    ['/api/v1/secrets', plant('refused-secret')],
    ['/api/v1/secrets/git-providers', { provider_tokens: { github: plant('refused-token') } }],
    ['/api/v1/secrets/git-providers', { provider_tokens: { cvs: { token: plant('refused-token') } } }],
    [
      '/api/v1/secrets/git-providers',
      { provider_tokens: { gitlab: { host: `https://u:${plant('refused-host')}@git.test` } } },
    ],
    ['/api/keys', { expires_at: plant('refused-time') }],
    ['/api/keys', { scopes: [plant('refused-scope')] }],
    [base, request({ secrets: [plant('refused-secrets')] })],
    [base, request({ secrets: { A: { kind: plant('refused-kind'), value: plant('refused-value') } } })],
    [base, request({ secrets: { A: { value: [plant('refused-list')] } } })],
    [base, request({ secrets: { SLIPWAY_X: plant('refused-value') } })],
    [base, request({ selected_repository: `https://user:${plant('repository-password')}@git.test/a/b` })],
    [base, request({ selected_repository: `https://${plant('repository-user')}@git.test/a/b.git` })],
    [
      base,
      request({ selected_repository: `https://git.test/a/b?access_token=${plant('repository-query')}` }),
    ],
    [base, request({ llm_profile: 'nobody', selected_branch: `${plant('refused-branch')}..` })],
    [`${base}/${randomUUID()}/send-message`, { content: { token: plant('refused-message') } }],
    [`/api/v1/sandboxes?sandbox_spec_id=${plant('refused-spec').slice(0, 4)}`, {}],
  ]
  for (const [path, body] of bodies) {
    const { status } = await ann.call('POST', path, body)
    expect([path, JSON.stringify(body).slice(0, 60), status >= 400 && status < 500]).toEqual([
      path,
      JSON.stringify(body).slice(0, 60),
      true,
    ])
  }
  const patch = { selected_repository: `https://user:${plant('patched-password')}@git.test/a/b` }
  const [some] = (await ann.get<PageOf<{ id: string }>>(`${base}/search`)).items
  expect((await ann.call('PATCH', `${base}/${some?.id}`, patch)).status).toBe(422)
  for (const body of [
    `{"api_key": "${plant('broken-json')}"`,
    `"${plant('broken-json')}`,
    plant('broken-json'),
  ]) {
    for (const path of ['/api/v1/settings', '/api/v1/secrets', base]) {
      const headers = { authorization: `Bearer ${ann.key}`, 'content-type': 'application/json' }
      expect((await server.fetch(path, { method: 'POST', headers, body })).status).toBe(422)
    }
  }
  await trespass()
}

/** Keys that are none, in every place for one. */
async function trespass(): Promise<void> {
  const wrong = plant('wrong-key')
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

/** Everything that can be looked at. */
async function look(ids: readonly string[], sandboxes: readonly string[]): Promise<void> {
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
      await ann.call('GET', `/api/v1/conversation/${id}/${rest}`)
    for (const rest of ['download', 'skills', 'hooks', 'file?file_path=.openhands/setup.sh'])
      await ann.call('GET', `${base}/${id}/${rest}`)
    await ann.get(`${base}?ids=${id}`)
  }
}

/** Secrets in the files of the data directory, by file; what is in the sandboxes' own folders is theirs. */
async function found(): Promise<Record<string, string[]>> {
  const all: Record<string, string[]> = {}
  for (const entry of await readdir(server.data, { withFileTypes: true })) {
    const isFolder = entry.isDirectory()
    if (entry.name === 'sandboxes' || entry.name === 'code') continue
    const path = join(server.data, entry.name)
    const below = isFolder ? await readdir(path, { recursive: true }) : ['']
    for (const name of below) {
      const places = leaks(await readFile(join(path, name)).catch(() => ''))
      if (places.length > 0) all[join(entry.name, name)] = places
    }
  }
  return all
}

/** Where a sandbox is entitled to its owner's secrets, and who else is. */
async function open(sandbox: string): Promise<void> {
  const box = await ann.sandboxUntil(sandbox, 'RUNNING')
  const headers = { 'x-session-api-key': String(box.session_api_key) }
  const plainly = async (path: string, more: Record<string, string> = {}) => {
    const response = await fetch(`${server.url}${path}`, { headers: { ...headers, ...more } })
    return await response.text()
  }
  const secrets = `/api/v1/sandboxes/${sandbox}/settings/secrets`
  await server.fetch(secrets, { headers })
  expect(await plainly(`${secrets}/FIRST`)).toBe(plant('user-secret'))
  expect(await plainly(`${secrets}/gitlab_token`)).toBe(plant('gitlab'))
  const me = '/api/v1/users/me?expose_secrets=true'
  expect(await plainly(me, { authorization: `Bearer ${ann.key}` })).toContain(plant('settings-api-key'))
  const stranger = await makeUser(server)
  planted.set('stranger-key', stranger.key)
  expect((await stranger.call('GET', me, undefined, headers)).status).toBe(403)
  expect((await ann.call('GET', me)).status).toBe(401)
}

test('no secret is found anywhere: in no answer, log, file, task, event or list of processes', async () => {
  await store()
  const ids = await converse()
  const [first] = await ann.get<({ sandbox_id: string } | null)[]>(`${base}?ids=${ids[0]}`)
  const sandbox = String(first?.sandbox_id)
  ids.push(await clone(sandbox))
  await open(sandbox)

  // One that ends by itself and prints all that it knows, as a sandbox and as the sandbox of a start.
  const { id: crashing } = await ann.must<{ id: string }>(
    'POST',
    '/api/v1/sandboxes?sandbox_spec_id=crashing',
  )
  const crashed = await ann.sandboxUntil(crashing, 'ERROR')
  expect(crashed.status_detail).toContain('COLOUR=blue')
  const start = (await ann.start(request({ sandbox_spec_id: 'crashing', plugins: [] }))).at(-1)
  expect(start).toMatchObject({ status: 'ERROR' })
  expect(start?.detail).toContain('COLOUR=blue')
  await fail()
  await ann.must('POST', `/api/v1/sandboxes/${sandbox}/pause`)
  await look(ids, [sandbox, crashing])
  await server.stop('SIGKILL')
  expect(await found()).toEqual({})
  await server.start()
  await ann.must('POST', `/api/v1/sandboxes/${sandbox}/resume`)
  await ann.sandboxUntil(sandbox, 'RUNNING')
  await look(ids, [sandbox])
  for (const path of ['/api/admin/users', '/api/admin/organizations']) await administrator(server).get(path)
  for (const id of [sandbox, crashing]) await ann.must('DELETE', `/api/v1/sandboxes/${id}`)
  await look(ids, [])
  const running = await found()
  await server.stop()

  // The secrets were really in use, and the list of processes was really looked at.
  const told = JSON.stringify(far.asked.map(({ headers, body }) => [headers, body.api_token]))
  for (const place of [
    'settings-api-key',
    'settings-header',
    'settings-bearer',
    'settings-body',
    'profile-api-key',
  ])
    expect([place, told.includes(plant(place))]).toEqual([place, true])
  expect(processes.count).toBeGreaterThan(5_000)
  expect(planted.size).toBeGreaterThan(60)
  const tasks = answers.filter((text) => text.includes('start-tasks/search'))
  expect(tasks.join()).toContain('A message is no secret.')
  expect({
    answers: answers.flatMap((text) => leaks(text).map((place) => `${place} in ${text.slice(0, 100)}`)),
    log: leaks(server.output()),
    running,
    stopped: await found(),
    processes: [...processes.found],
  }).toEqual({ answers: [], log: [], running: {}, stopped: {}, processes: [] })
}, 300_000)

test('the search finds a secret in each form that it looks for', () => {
  const value = plant('sanity')
  const text = Buffer.from(`abc ${value} def`)
  const forms = [0, 1, 2].map((shift) => text.subarray(shift).toString('base64'))
  for (const form of [String(text), ...forms, text.toString('hex')]) expect(leaks(form)).toEqual(['sanity'])
  planted.delete('sanity')
})
