import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { GitChange, WebSocketCallbackClient } from '@openhands/typescript-client'
import { beforeAll, expect } from 'vitest'
import type { MockProvider } from '../../support/mock-provider.ts'
import { differs, endFamily, mapCase } from '../frame.ts'
import {
  commandReply,
  finishReply,
  type MapConversation,
  OwnMapServer,
  openMapServer,
  openModel,
  unknownId,
  waitFor,
} from '../map-server.ts'

const folder = join(import.meta.dirname, '../../../node_modules/@openhands/typescript-client/dist')

/** The published client, unmodified. It loads WebSocket with a bare `require`. */
const map = openMapServer()
const packages = async () => ({
  main: await import('@openhands/typescript-client'),
  clients: await import('@openhands/typescript-client/clients'),
})
let sdk: Awaited<ReturnType<typeof packages>>
beforeAll(async () => {
  Object.assign(globalThis, { require: createRequire(import.meta.url) })
  sdk = await packages()
})
const options = () => ({ host: map.url, ...(map.key === undefined ? {} : { apiKey: map.key }) })
const workspace = (more: object = {}) =>
  new sdk.main.RemoteWorkspace({ ...options(), workingDir: map.directory, ...more })
const httpOptions = () => ({ baseUrl: map.url, ...(map.key === undefined ? {} : { apiKey: map.key }) })
const agentOf = (model: MockProvider) =>
  new sdk.main.Agent({ llm: model.llm('chat') as never, tools: [{ name: 'terminal' }] })
const manager = () => new sdk.main.ConversationManager(options())
const attach = ({ id }: MapConversation) => manager().loadConversation(id)

/** The client's module takes the socket of `window` when it is loaded, else the package `ws`. */
async function socketClass(isNative: boolean): Promise<typeof WebSocketCallbackClient> {
  if (!isNative) return sdk.main.WebSocketCallbackClient
  Object.assign(globalThis, { window: { WebSocket } })
  try {
    const url = pathToFileURL(join(folder, 'events/websocket-client.js'))
    return (await import(`${url.href}?native`)).WebSocketCallbackClient
  } finally {
    Reflect.deleteProperty(globalThis, 'window')
  }
}

mapCase('F34.server-client', 'probes and information, with and without the key', async () => {
  const server = new sdk.clients.ServerClient(options())
  expect(await server.getServerInfo()).toMatchObject({ version: expect.any(String) })
  const open = new sdk.clients.ServerClient({ host: map.url })
  await open.getAlive()
  await open.getHealth()
  await open.getReady()
  await new sdk.main.HooksClient(options()).loadHooks({ project_dir: map.directory } as never)
})
mapCase('F34.http-errors', 'refusals carry status and detail', async () => {
  const stranger = new sdk.clients.ProfilesClient({ host: map.url, apiKey: 'a-wrong-key' })
  await expect(stranger.listProfiles()).rejects.toMatchObject({ status: 401 })
  const profiles = new sdk.clients.ProfilesClient(options())
  await expect(profiles.getProfile('map-none')).rejects.toSatisfy(
    (error: unknown) => error instanceof sdk.main.HttpError && error.status === 404,
  )
  const nobody = new sdk.clients.ProfilesClient({ host: 'http://127.0.0.1:9' })
  await expect(nobody.listProfiles()).rejects.toSatisfy(
    (error: unknown) => !(error instanceof sdk.main.HttpError),
  )
})
mapCase('F34.workspace-exec', 'output, exit code and time limit of a command', async () => {
  const found = await workspace().executeCommand('pwd; echo oops >&2; exit 3', map.directory)
  expect(found).toMatchObject({
    exit_code: 3,
    stdout: expect.stringContaining(map.directory),
    stderr: expect.stringContaining('oops'),
  })
  expect(await workspace().executeCommand('sleep 60', undefined, 1)).toMatchObject({ exit_code: -1 })
})
mapCase('F34.workspace-files', 'files are the same text both ways; faults have a status', async () => {
  const file = `${map.directory}/client.txt`
  await workspace().uploadText('ünï', file)
  expect(await workspace().downloadAsText(file)).toBe('ünï')
  await expect(workspace().downloadAsText(`${map.directory}/none`)).rejects.toBeInstanceOf(Error)
})
differs(
  'F34.workspace-binary-download',
  'a binary file is the same bytes',
  'the published TypeScript client: `downloadAsBlob`',
  async () => {
    const bytes = new Uint8Array(256).map((_, n) => n)
    const path = `${map.directory}/client.bin`
    await map.upload(path, bytes)
    const blob = await workspace().downloadAsBlob(path)
    const decoded = new TextEncoder().encode(new TextDecoder().decode(bytes))
    expect(new Uint8Array(await blob.arrayBuffer())).toEqual(decoded)
    // Another call of the same client has the bytes.
    const whole = await new sdk.clients.FileClient(options()).downloadFile(path)
    expect(new Uint8Array(whole)).toEqual(bytes)
  },
)
mapCase('F34.workspace-git', 'changes and differences of a repository', async () => {
  const at = `${map.directory}/repository`
  const git = `git -C '${at}' -c user.name=m -c user.email=m@localhost`
  await map.runCommand(
    `git init -q '${at}' && echo one > '${at}/a.txt' && ${git} add . && ${git} commit -qm first && echo two > '${at}/a.txt'`,
  )
  expect(await workspace().gitChanges(at)).toMatchObject([{ path: 'a.txt' }])
  expect(await workspace().gitDiff(`${at}/a.txt`)).toMatchObject({ original: 'one', modified: 'two' })
})
mapCase('F34.conversation-run', 'a message is stored, a run ends, and its results are read', async () => {
  const model = await map.openModel(commandReply('echo ran'), finishReply('Done.'))
  const info = await map.createConversation(model)
  const conversation = await attach(info)
  await conversation.sendMessage('Go.')
  expect((await map.getConversation(info.id)).execution_status).toBe('idle')
  await conversation.run()
  await map.waitForStatus(info.id, 'finished')
  expect(JSON.stringify(await map.getEvents(info.id))).toContain('ran')
})
mapCase('F34.events-list', 'events are counted, searched and read by id as they are stored', async () => {
  const info = await map.createConversation()
  await map.sendMessage(info.id, 'Stored.')
  const { events } = (await attach(info)).state
  const stored = await map.getEvents(info.id)
  expect(await events.count()).toBe(stored.length)
  expect((await events.getEventById(String(stored[0]?.id))).id).toBe(stored[0]?.id)
})
mapCase('F34.events-unknown-id', 'an unknown event is 404', async () => {
  const { events } = (await attach(await map.createConversation())).state
  await expect(events.getEventById(unknownId)).rejects.toMatchObject({ status: 404 })
})
mapCase('F34.events-search-kind', 'the short name of a kind finds events', async () => {
  const info = await map.createConversation()
  await map.sendMessage(info.id, 'Stored.')
  const { events } = (await attach(info)).state
  expect((await events.search({ kind: 'MessageEvent' })).items).toHaveLength(1)
})
mapCase('F34.conversation-controls', 'title and policy', async () => {
  const info = await map.createConversation()
  const conversation = await attach(info)
  await conversation.setTitle('Of the client')
  await conversation.setConfirmationPolicy({ kind: 'AlwaysConfirm' } as never)
  expect(await map.getConversation(info.id)).toMatchObject({
    title: 'Of the client',
    confirmation_policy: { kind: 'AlwaysConfirm' },
  })
})
mapCase('F34.manager', 'conversations are searched, counted, read and deleted', async () => {
  const { id } = await map.createConversation()
  expect(await manager().countConversations()).toBeGreaterThan(0)
  expect((await manager().searchConversations({ limit: 1 })).items).toHaveLength(1)
  expect(await manager().getConversations([id, unknownId])).toMatchObject([{ id }, null])
  await manager().deleteConversation(id)
  await expect(manager().getConversation(id)).rejects.toMatchObject({ status: 404 })
})
mapCase('F34.hooks-client', 'hooks of a project, or null', async () => {
  const text = JSON.stringify({ stop: [{ hooks: [{ type: 'command', command: 'true' }] }] })
  await map.upload(`${map.directory}/hooked/.openhands/hooks.json`, text)
  const hooks = await map.requestOrThrow('POST', '/api/hooks', {
    body: { project_dir: `${map.directory}/hooked` },
  })
  expect(hooks).toMatchObject({ hook_config: { stop: [{ matcher: '*' }] } })
})
mapCase('F34.mcp-client', 'a server that does not start is reported; an empty command is 422', async () => {
  const client = new sdk.clients.MCPClient(options())
  const probe = (command: string) => client.testServer({ server: { type: 'stdio', command } } as never)
  expect(await probe('/nothing/there')).toMatchObject({ ok: false, error_kind: expect.any(String) })
  await expect(probe('')).rejects.toMatchObject({ status: 422 })
})

// The published client has no workspaces of conversations yet: its transport asks for their routes.
mapCase('F34.workspace-scoped', 'a workspace that belongs to a conversation', async () => {
  const { id } = await map.createConversation()
  const http = new sdk.main.HttpClient(httpOptions())
  const below = `/api/conversations/${id}`
  const run = (command: string, cwd?: string) =>
    http.post(`${below}/bash/execute_bash_command`, { command, ...(cwd && { cwd }) })
  expect((await run('pwd')).data).toMatchObject({ stdout: `${map.directory}\n`, exit_code: 0 })
  const history = await http.get<{ items: { command?: string }[] }>(`${below}/bash/bash_events/search`)
  expect(history.data.items.some(({ command }) => command === 'pwd')).toBe(true)
  await expect(run('pwd', '/')).rejects.toMatchObject({
    status: 422,
    response: { detail: 'cwd must be inside the conversation workspace' },
  })
  const outside = http.get(`${below}/file/download`, { params: { path: '/etc/hostname' } })
  await expect(outside).rejects.toMatchObject({
    status: 422,
    response: { detail: 'path must be inside the conversation workspace' },
  })
  const unknown = http.post(`/api/conversations/${unknownId}/bash/execute_bash_command`, { command: 'pwd' })
  await expect(unknown).rejects.toMatchObject({ status: 404 })
})
differs(
  'F34.workspace-git-types',
  'statuses of changes are those of the types',
  'the published TypeScript client: `GitChange`',
  async () => {
    const declared = ['added', 'modified', 'deleted', 'renamed'] as const satisfies GitChange['status'][]
    const generated = ['ADDED', 'UPDATED', 'DELETED', 'MOVED']
    const at = `${map.directory}/statuses`
    const git = `git -C '${at}' -c user.name=m -c user.email=m@localhost`
    await map.runCommand(
      `git init -q '${at}' && cd '${at}' && echo 1 > a && echo 2 > b && ${git} add . && ${git} commit -qm c && echo 3 > a && rm b && echo 4 > d`,
    )
    const statuses = (await workspace().gitChanges(at)).map(({ status }) => status as string)
    expect(statuses.toSorted()).toEqual(['ADDED', 'DELETED', 'UPDATED'])
    for (const status of statuses) {
      expect(generated).toContain(status)
      expect(declared).not.toContain(status)
    }
  },
)
mapCase(
  'F34.bash-client',
  'commands in the background',
  async () => {
    const { bash } = workspace()
    const http = new sdk.main.HttpClient(httpOptions())
    const stop = (id: string) => http.post(`/api/bash/bash_commands/${id}/stop`)
    const started = await bash.startCommand('echo begun; sleep 60', map.directory)
    const outputs = async () =>
      (
        await bash.searchEvents({
          command_id__eq: started.id.replaceAll('-', ''),
          kind__eq: 'BashOutput',
        } as never)
      ).items
    const items = await waitFor(outputs, (found) => found.length > 0)
    expect(items[0]).toMatchObject({ kind: 'BashOutput', stdout: 'begun\n' })
    expect(await bash.getEvent(started.id)).toMatchObject({ id: started.id, kind: 'BashCommand' })
    for (const events of [
      await bash.getEvents([started.id, unknownId]),
      await bash.batchGetEvents([started.id, unknownId]),
    ])
      expect(events).toMatchObject([{ id: started.id }, null])
    await stop(started.id)
    expect((await waitFor(outputs, (found) => found.at(-1)?.exit_code != null)).at(-1)?.exit_code).toBe(-15)
    await expect(stop(unknownId)).rejects.toMatchObject({ status: 404 })
    await bash.clearEvents()
    expect((await bash.searchEvents()).items).toEqual([])
  },
  { faultThere: 'no output is found while the command runs' },
)
mapCase('F34.bash-websocket', 'output of commands on a socket', async () => {
  await workspace().executeCommand('echo before-the-socket', map.directory)
  const events: unknown[] = []
  const errors: Error[] = []
  const socket = new sdk.main.BashWebSocketClient({
    ...options(),
    resendMode: 'all',
    callback: (event: unknown) => void events.push(event),
    onError: (error: Error) => void errors.push(error),
  } as never)
  socket.start()
  try {
    const text = async () => JSON.stringify(events)
    await waitFor(text, (seen) => seen.includes('before-the-socket\\n'))
    await workspace().executeCommand('echo on-the-socket', map.directory)
    await waitFor(text, (seen) => seen.includes('on-the-socket\\n'))
  } finally {
    socket.stop()
  }
  expect(errors).toEqual([])
})
mapCase('F34.workspace-session', 'a cookie for files of a conversation', async () => {
  const { id } = await map.createConversation()
  await map.upload(`${map.directory}/page.txt`, new TextEncoder().encode('shown'))
  const base = await workspace().startWorkspaceSession(id)
  expect(base).toBe(`${map.url}/api/conversations/${id}/workspace/`)
  const minted = await fetch(`${map.url}/api/auth/workspace-session`, {
    method: 'POST',
    headers: map.headers,
  })
  const cookie = minted.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  expect(await (await fetch(`${base}page.txt`, { headers: { cookie } })).text()).toBe('shown')
  await workspace().deleteWorkspaceSession()
  const stranger = new sdk.main.RemoteWorkspace({ host: map.url, workingDir: map.directory })
  await expect(stranger.startWorkspaceSession(id)).rejects.toMatchObject({ status: 401 })
})
mapCase('F34.conversation-create', 'the client makes a conversation', async () => {
  const model = await map.openModel(finishReply('Made.'))
  const conversation = new sdk.main.RemoteConversation(agentOf(model), workspace())
  await conversation.start({ initialMessage: 'Begin.', maxIterations: 7 })
  const info = await map.waitForStatus(conversation.id, 'finished')
  expect(info).toMatchObject({
    max_iterations: 7,
    workspace: { working_dir: map.directory },
    agent: { tools: [{ name: 'terminal' }] },
  })
  expect(await conversation.getAgentFinalResponse()).toBe('Made.')
  await conversation.close()
})
// The published client has no class for a first frame with the key: a plain socket does as a newer one.
mapCase('F34.event-stream', 'a socket with the key in its first frame', async () => {
  const model = await map.openModel(finishReply('Streamed.'))
  const { id } = await map.createConversation(model)
  await map.sendMessage(id, 'Stored before.')
  const url = `${map.url.replace(/^http/, 'ws')}/sockets/events/${id}?resend_mode=all`
  const frames: string[] = []
  const socket = new WebSocket(url)
  socket.onmessage = ({ data }) => void frames.push(String(data))
  await new Promise((done) => {
    socket.onopen = done
  })
  socket.send(JSON.stringify({ type: 'auth', session_api_key: map.key }))
  const text = async () => frames.join('\n')
  await waitFor(text, (seen) => seen.includes('Stored before.'))
  const content = [{ type: 'text', text: 'Go.' }]
  socket.send(JSON.stringify({ role: 'user', content, run: true }))
  await waitFor(text, (seen) => seen.includes('Streamed.'))
  await map.waitForStatus(id, 'finished')
  socket.close()
  const refused = new WebSocket(url)
  refused.onopen = () => refused.send(JSON.stringify({ type: 'auth', session_api_key: 'a-wrong-key' }))
  const code = await new Promise((done) => {
    refused.onclose = (event) => done(event.code)
  })
  expect(code).toBe(4001)
})
mapCase('F34.ws-callback-client', 'events on a socket in Node', async () => {
  const model = await map.openModel(finishReply('By the callback.'))
  const { id, agent } = await map.createConversation(model)
  const events: { kind?: string }[] = []
  const errors: Error[] = []
  const conversation = new sdk.main.RemoteConversation(agent as never, workspace(), {
    conversationId: id,
    callback: (event: unknown) => void events.push(event as { kind?: string }),
    onError: (error: Error) => void errors.push(error),
  } as never)
  await conversation.startWebSocketClient()
  try {
    await waitFor(
      async () => events.length,
      (count) => count > 0,
    )
    await conversation.sendMessage('Go.')
    await conversation.run()
    await waitFor(
      async () => JSON.stringify(events),
      (seen) => seen.includes('By the callback.'),
    )
  } finally {
    await conversation.close()
  }
  expect(errors).toEqual([])
})
mapCase('F34.conversation-confirm', 'rejection, confirmation and secrets', async () => {
  const command = 'printf "$MAP_TEXT-$MAP_CALLED" | tee shown.txt'
  const model = await map.openModel(commandReply('touch rejected.txt'), commandReply(command), finishReply())
  const info = await map.createConversation(model, { confirmation_policy: { kind: 'AlwaysConfirm' } })
  const conversation = await attach(info)
  await conversation.updateSecrets({ MAP_TEXT: 'plain-secret-1', MAP_CALLED: () => 'called-secret-2' })
  await conversation.sendMessage('Go.')
  await conversation.run()
  await map.waitForStatus(info.id, 'waiting_for_confirmation')
  await conversation.sendConfirmationResponse(false, 'Not this one.')
  const isRejection = ({ kind }: { kind: string }) => kind === 'UserRejectObservation'
  const rejected = (await map.waitForEvent(info.id, isRejection)).filter(isRejection)
  expect(rejected).toMatchObject([{ rejection_reason: 'Not this one.' }])
  expect((await map.getConversation(info.id)).execution_status).not.toBe('error')
  await (await attach(info)).run().catch(() => {})
  await map.waitForStatus(info.id, 'waiting_for_confirmation')
  await conversation.sendConfirmationResponse(true)
  await map.waitForEvent(info.id, ({ kind }) => kind === 'ObservationEvent')
  const { stdout } = await workspace().executeCommand('cat shown.txt; ls', map.directory)
  expect(stdout).toContain('plain-secret-1-called-secret-2')
  expect(stdout).not.toContain('rejected.txt')
  const stored = JSON.stringify(await map.getEvents(info.id))
  for (const secret of ['plain-secret-1', 'called-secret-2']) expect(stored).not.toContain(secret)
})
mapCase('F34.conversation-branching', 'fork, head and side questions', async () => {
  const model = await map.openModel({ text: 'One.' })
  const info = await map.createConversation(model)
  await map.sendMessage(info.id, 'Begin.', true)
  await map.waitForStatus(info.id, 'finished')
  const conversation = await attach(info)
  const before = await map.getEvents(info.id)
  const fork = await conversation.fork({ title: 'Branch of the map' } as never)
  expect(fork.id).not.toBe(info.id)
  expect(await map.getConversation(fork.id)).toMatchObject({
    title: 'Branch of the map',
    workspace: { working_dir: map.directory },
  })
  const texts = (events: readonly unknown[]) => JSON.stringify(events).match(/Begin\.|One\./g)
  expect(texts(await map.getEvents(fork.id))).toEqual(texts(before))
  const message = before.find(({ kind, source }) => kind === 'MessageEvent' && source === 'user')
  await conversation.navigateTo(String(message?.id))
  expect(await conversation.state.refresh()).toMatchObject({ leaf_event_id: message?.id })
  const messages = async () => (await map.getEvents(info.id)).filter(({ kind }) => kind === 'MessageEvent')
  const counted = (await messages()).length
  model.replies = [{ text: 'Aside.' }]
  expect(await conversation.askAgent('What is this?')).toBe('Aside.')
  expect(await messages()).toHaveLength(counted)
})
differs(
  'F34.manager-update-result',
  'an update answers with the conversation',
  'the published TypeScript client: `updateConversation`',
  async () => {
    const { id } = await map.createConversation()
    expect(await manager().updateConversation(id, { title: 'Another' } as never)).toEqual({ success: true })
    expect(await manager().getConversation(id)).toMatchObject({ id, title: 'Another' })
  },
)
differs(
  'F34.manager-create-options',
  'options of a new conversation',
  'the published TypeScript client: `createConversation`',
  async () => {
    const model = await map.openModel(finishReply())
    const given = { maxIterations: 9, stuckDetection: false }
    const defaults = { max_iterations: 500, stuck_detection: true }
    const created = await manager().createConversation(agentOf(model), {
      workingDir: map.directory,
      ...given,
    } as never)
    expect(await map.getConversation(created.id)).toMatchObject(defaults)
    // The options of `start` are sent.
    const conversation = new sdk.main.RemoteConversation(agentOf(model), workspace())
    await conversation.start(given)
    expect(await map.getConversation(conversation.id)).toMatchObject({
      max_iterations: 9,
      stuck_detection: false,
    })
  },
)
mapCase('F34.manager-acp', 'conversations of ACP agents', async () => {
  const { acp } = manager()
  const agent = { kind: 'ACPAgent', acp_command: ['true'], acp_args: ['--flag'], acp_model: 'opus' }
  const before = await acp.countConversations()
  const { id } = await acp.createConversation(agent as never, { workingDir: map.directory } as never)
  const shown = { id, agent }
  expect(await acp.getConversation(id)).toMatchObject(shown)
  expect(await acp.getConversations([id, unknownId])).toMatchObject([shown, null])
  expect((await acp.searchConversations()).items).toContainEqual(expect.objectContaining({ id }))
  expect(await acp.countConversations()).toBe(before + 1)
})
mapCase(
  'F34.restart-reload',
  'a conversation after a restart',
  async () => {
    await using server = await OwnMapServer.open({ isProcess: true, key: 'map-key-1' })
    await using model = await openModel(commandReply('echo kept > kept.txt'), finishReply('Kept.'))
    const hook = { matcher: '*', hooks: [{ type: 'command', command: 'true' }] }
    const { id } = await server.createConversation(model, { hook_config: { stop: [hook] } })
    await server.sendMessage(id, 'Go.', true)
    await server.waitForStatus(id, 'finished')
    const open = () => new sdk.main.ConversationManager({ host: server.url, apiKey: 'map-key-1' })
    await (await open().loadConversation(id)).setTitle('Of before')
    const before = await server.getEvents(id)
    await server.restart()
    const conversation = await open().loadConversation(id, server.directory)
    expect(await conversation.state.refresh()).toMatchObject({
      execution_status: 'finished',
      title: 'Of before',
    })
    expect(await conversation.getHookConfig()).toMatchObject({ stop: [{ matcher: '*' }] })
    expect(await conversation.state.events.count()).toBe(before.length)
    expect(await conversation.workspace.downloadAsText(`${server.directory}/kept.txt`)).toBe('kept\n')
  },
  { hasOwnServer: true },
)
for (const [id, promise, isNative] of [
  ['F34.event-stream-reconnect', 'a socket comes back on its own', false],
  ['F34.event-stream-reconnect-native', 'the same with the socket of Node', true],
] as const)
  mapCase(
    id,
    promise,
    async () => {
      await using server = await OwnMapServer.open({ isProcess: true, key: 'map-key-1' })
      const { id } = await server.createConversation()
      const events: unknown[] = []
      const Socket = await socketClass(isNative)
      const socket = new Socket({
        host: server.url,
        conversationId: id,
        apiKey: 'map-key-1',
        callback: (event: unknown) => void events.push(event),
      })
      socket.start()
      try {
        const text = async () => JSON.stringify(events)
        await waitFor(text, (seen) => seen.includes('full_state'))
        await server.restartAtSamePort()
        await waitFor(text, (seen) => seen.split('"full_state"').length > 2)
        await server.sendMessage(id, 'After the restart.')
        await waitFor(text, (seen) => seen.includes('After the restart.'))
      } finally {
        socket.stop()
      }
    },
    { hasOwnServer: true },
  )
mapCase(
  'F34.endpoint-audit',
  'every call of the client has a route',
  async () => {
    const { paths } = await map.requestOrThrow<{ paths: Record<string, object> }>('GET', '/openapi.json')
    const shape = (path: string) => path.replace(/\$?\{[^}]*\}/g, '{}').replace(/(?<=.)\/$/, '')
    const served = new Set(Object.keys(paths).map(shape))
    const called = new Set<string>()
    for (const name of await readdir(folder, { recursive: true })) {
      // Of other services: the cloud, shared conversations, a sign-in by a device.
      if (!/^(client|conversation|events|workspace|profiles)\/[\w-]+\.js$/.test(name)) continue
      if (/cloud-client|shared-client|device-flow/.test(name)) continue
      const text = await readFile(join(folder, name), 'utf8')
      for (const [, path = ''] of text.matchAll(
        /['"`](\/(?:api\/|alive|health|ready|server_info)[^'"`?]*)['"`]/g,
      ))
        called.add(shape(path))
    }
    expect(called.size).toBeGreaterThan(60)
    expect([...called].filter((path) => !served.has(path))).toEqual([])
  },
  { faultThere: 'the route of the desktop is gone' },
)
mapCase('F34.version-gate-old', 'an older server is refused by the client', async () => {
  const asked: string[] = []
  const old = createServer((request, response) => {
    asked.push(String(request.url))
    response.setHeader('content-type', 'application/json').end('{"version":"1.22.0"}')
  }).listen(0, '127.0.0.1')
  await once(old, 'listening')
  try {
    const host = `http://127.0.0.1:${(old.address() as AddressInfo).port}`
    const gated = new sdk.main.HooksClient({ host }).loadHooks({ project_dir: '/' } as never)
    await expect(gated).rejects.toMatchObject({ requiredVersion: '1.23.0', actualVersion: '1.22.0' })
    expect(asked).toEqual(['/server_info'])
  } finally {
    old.close()
  }
})

endFamily('F34', 32)
