import { createRequire } from 'node:module'
import { beforeAll, expect } from 'vitest'
import { endFamily, mapCase, missing, untested } from '../frame.ts'
import { commandReply, finishReply, type MapConversation, openMapServer, unknownId } from '../map-server.ts'

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
const manager = () => new sdk.main.ConversationManager(options())
const attach = ({ id }: MapConversation) => manager().loadConversation(id)

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
missing(
  'F34.workspace-binary-download',
  'a binary file is the same bytes',
  'the published client reads bytes as text: a fault of the client',
  async () => {
    const bytes = new Uint8Array(256).map((_, n) => n)
    await map.upload(`${map.directory}/client.bin`, bytes)
    const blob = await workspace().downloadAsBlob(`${map.directory}/client.bin`)
    expect(new Uint8Array(await blob.arrayBuffer())).toEqual(bytes)
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
for (const [id, promise] of [
  ['F34.workspace-scoped', 'a workspace that belongs to a conversation'],
  ['F34.workspace-git-types', 'statuses of changes are those of the types'],
  ['F34.bash-client', 'commands in the background'],
  ['F34.bash-websocket', 'output of commands on a socket'],
  ['F34.workspace-session', 'a cookie for files of a conversation'],
  ['F34.conversation-create', 'the client makes a conversation'],
  ['F34.event-stream', 'a socket with the key in its first frame'],
  ['F34.ws-callback-client', 'events on a socket in Node'],
  ['F34.conversation-confirm', 'rejection, confirmation and secrets'],
  ['F34.conversation-branching', 'fork, head and side questions'],
  ['F34.manager-update-result', 'an update answers with the conversation'],
  ['F34.manager-create-options', 'options of a new conversation'],
  ['F34.manager-acp', 'conversations of ACP agents'],
  ['F34.restart-reload', 'a conversation after a restart'],
  ['F34.event-stream-reconnect', 'a socket comes back by itself'],
  ['F34.event-stream-reconnect-native', 'the same with the socket of Node'],
  ['F34.endpoint-audit', 'every call of the client has a route'],
  ['F34.version-gate-old', 'an older server is refused by the client'],
] as const)
  untested(id, promise)

endFamily('F34', 32)
