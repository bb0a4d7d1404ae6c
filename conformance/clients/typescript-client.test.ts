import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AgentBase, Event, RemoteConversation } from '@openhands/typescript-client'
import { beforeAll, expect, test } from 'vitest'
import { bashStep, finishStep } from '../support/agent-driver.ts'
import { makeRepositoryCommand, openWireServer, sessionKey, unknownId } from '../wire/wire-server.ts'

/**
 * The published client, unmodified, against the server: the demands of its own integration tests, restated.
 * It loads WebSocket with a bare `require`, which an ES module does not have, so `require` is defined before
 * it is loaded.
 */
const wire = openWireServer()
const packages = async () => ({
  main: await import('@openhands/typescript-client'),
  clients: await import('@openhands/typescript-client/clients'),
})
let sdk: Awaited<ReturnType<typeof packages>>
beforeAll(async () => {
  Object.assign(globalThis, { require: createRequire(import.meta.url) })
  sdk = await packages()
})

const options = () => ({ host: wire.url, ...(sessionKey === undefined ? {} : { apiKey: sessionKey }) })
const workspace = (workingDir = wire.directory) => new sdk.main.RemoteWorkspace({ ...options(), workingDir })
const agent = (script: readonly unknown[], more: object = {}): AgentBase => ({
  kind: 'Agent',
  llm: { model: 'scripted/test', usage_id: 'agent', api_key: 'ts-canary', script },
  tools: [{ name: 'terminal' }],
  ...more,
})
const uniqueName = () => `ts-${randomUUID().slice(0, 8)}`

/** Waits until a condition holds. */
async function waitFor(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let elapsedMs = 0; !(await condition()); elapsedMs += 50) {
    if (elapsedMs > 25_000) throw new Error('it did not come')
    await sleep(50)
  }
}
const status = (conversation: RemoteConversation) => conversation.state.getExecutionStatus()
const waitUntilFinished = (conversation: RemoteConversation) =>
  waitFor(async () => {
    await conversation.state.refresh()
    return (await status(conversation)) === 'finished'
  })

/** The status of the HttpError that a call throws. */
async function errorStatus(call: Promise<unknown>): Promise<number> {
  try {
    await call
  } catch (error) {
    if (error instanceof sdk.main.HttpError) return error.status
    throw error
  }
  throw new Error('it was not refused')
}

/** A conversation with a socket, whose events are collected. */
async function openConversation(script: readonly unknown[], more: object = {}) {
  const events: Event[] = []
  const errors: Error[] = []
  const conversation = new sdk.main.RemoteConversation(agent(script, more), workspace(), {
    callback: (event) => void events.push(event),
    onError: (error) => void errors.push(error),
  })
  await conversation.start()
  await conversation.startWebSocketClient()
  await waitFor(() => events.some((event) => 'key' in event && event.key === 'full_state'))
  return { conversation, events, errors }
}

test('the server is alive, healthy, ready, and of a version that no feature refuses', async () => {
  const { server, tools } = new sdk.main.ConversationManager({ ...options() })
  expect(await server.getAlive()).toMatchObject({ status: 'ok' })
  expect(await server.getHealth()).toMatchObject({ status: 'ok' })
  expect(await server.getReady()).toMatchObject({ status: 'ready' })
  const { version } = await server.getServerInfo()
  expect(sdk.main.compareAgentServerVersions(version, '1.31.0')).toBeGreaterThanOrEqual(0)
  expect(await server.getRoot()).toBeDefined()
  expect(await tools.listTools()).toEqual(expect.arrayContaining(['terminal', 'file_editor']))
})

test('a conversation runs, its events arrive live and once, and its state follows', async () => {
  const { conversation, events, errors } = await openConversation([
    bashStep('echo from-the-shell'),
    finishStep('All done.'),
  ])
  await conversation.sendMessage('Begin.')
  await conversation.run()
  await waitFor(() => events.some((event) => 'value' in event && event.value === 'finished'))
  await waitUntilFinished(conversation)
  const ids = events.map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  for (const event of events) {
    expect([typeof event.id, typeof event.kind]).toEqual(['string', 'string'])
    if (event.kind === 'ConversationStateUpdateEvent')
      expect(event).toMatchObject({ key: expect.any(String), value: expect.anything() })
  }
  const kinds = events.map(({ kind }) => kind)
  for (const kind of ['SystemPromptEvent', 'MessageEvent', 'ActionEvent', 'ObservationEvent'])
    expect(kinds).toContain(kind)
  expect(JSON.stringify(events)).toContain('from-the-shell')
  expect(JSON.stringify(events)).not.toContain('ts-canary')
  expect(await conversation.getAgentFinalResponse()).toBe('All done.')
  expect(await conversation.conversationStats()).toMatchObject({
    usage_to_metrics: { agent: expect.any(Object) },
  })
  expect(await conversation.state.getPersistenceDir()).toEqual(expect.any(String))
  expect(await conversation.state.getConfirmationPolicy()).toMatchObject({ kind: 'NeverConfirm' })
  expect((await conversation.state.getAgent()).kind).toBe('Agent')
  expect(errors).toEqual([])
  await conversation.stopWebSocketClient()
  await sleep(200)
  const before = events.length
  await conversation.sendMessage('Nobody listens.')
  await sleep(400)
  expect(events).toHaveLength(before)
  await conversation.close()
})

test('events are counted, searched with filters, and fetched by id', async () => {
  const { conversation } = await openConversation([finishStep('Found.')])
  await conversation.sendMessage('A needle in here')
  await conversation.run()
  await waitUntilFinished(conversation)
  const { events } = conversation.state
  const all = await events.search({ limit: 100 })
  expect(await events.count()).toBe(all.items.length)
  const back = await events.search({ sort_order: 'TIMESTAMP_DESC' })
  expect(back.items.map(({ id }) => id)).toEqual(all.items.map(({ id }) => id).reverse())
  expect((await events.search({ body: 'NEEDLE' })).items).toHaveLength(1)
  expect((await events.search({ kind: 'MessageEvent', source: 'user' })).items).toHaveLength(1)
  expect(await events.count({ kind: 'ActionEvent' })).toBe(1)
  const [first] = all.items
  expect(await events.getEventById(String(first?.id))).toMatchObject({ id: first?.id })
  const some = await events.getEventsById([String(first?.id), unknownId])
  expect(some.map((event) => event?.id ?? null)).toEqual([first?.id, null])
  expect(await events.length()).toBeGreaterThanOrEqual(all.items.length)
  await conversation.close()
})

test('pending actions are accepted or rejected', async () => {
  const { conversation, events } = await openConversation([
    bashStep('touch yes'),
    bashStep('touch no'),
    finishStep(),
  ])
  await conversation.setConfirmationPolicy({ kind: 'AlwaysConfirm' })
  // The client caches the state for two seconds.
  await conversation.state.refresh()
  expect(await conversation.state.getConfirmationPolicy()).toMatchObject({ kind: 'AlwaysConfirm' })
  await conversation.sendMessage('Begin.')
  await conversation.run()
  const waits = () =>
    events.filter((event) => 'value' in event && event.value === 'waiting_for_confirmation').length
  await waitFor(() => waits() === 1)
  await conversation.sendConfirmationResponse(true)
  await waitFor(() => waits() === 2)
  await conversation.sendConfirmationResponse(false, 'Not that.')
  await waitFor(() => events.some(({ kind }) => kind === 'UserRejectObservation'))
  const { stdout } = await workspace().executeCommand('ls', wire.directory)
  expect([stdout.includes('yes'), stdout.includes('no\n')]).toEqual([true, false])
  await conversation.close()
})

test('conversations are listed, counted, fetched together, renamed, tagged and deleted', async () => {
  const manager = new sdk.main.ConversationManager(options())
  const made = await manager.createConversation(agent([finishStep()]), {
    workingDir: wire.directory,
    initialMessage: 'Go.',
  })
  const id = made.id
  expect(await manager.countConversations()).toBeGreaterThanOrEqual(1)
  expect((await manager.getAllConversations()).map((each) => each.id)).toContain(id)
  expect((await manager.getConversations([id, unknownId])).map((each) => each?.id ?? null)).toEqual([
    id,
    null,
  ])
  await manager.updateConversation(id, { title: 'Renamed', tags: { a: 'b' } })
  expect(await manager.getConversation(id)).toMatchObject({ title: 'Renamed', tags: { a: 'b' } })
  await made.setTitle('Again')
  expect((await manager.getConversation(id)).title).toBe('Again')
  const loaded = await manager.loadConversation(id, wire.directory)
  expect(loaded.id).toBe(id)
  await waitUntilFinished(loaded)
  await manager.deleteConversation(id)
  expect(await errorStatus(manager.getConversation(id))).toBe(404)
  const client = new sdk.clients.ConversationClient(options())
  expect([400, 422]).toContain(await errorStatus(client.createConversation({})))
})

test('a conversation is forked, navigated, and switched to other models', async () => {
  const { conversation } = await openConversation([{ text: 'One.' }, { text: 'Two.' }])
  await conversation.sendMessage('First.')
  await conversation.run()
  await waitUntilFinished(conversation)
  const copy = await conversation.fork({ title: 'Copy' }, { includeSkills: false })
  expect(copy.id).not.toBe(conversation.id)
  const { items } = await conversation.state.events.search({ kind: 'MessageEvent' })
  await conversation.navigateTo(String(items[0]?.id))
  const client = new sdk.clients.ConversationClient(options())
  expect(await client.getConversation(conversation.id)).toMatchObject({ leaf_event_id: items[0]?.id })
  await conversation.navigateTo(null)
  expect(await client.getConversation(conversation.id)).toMatchObject({ leaf_event_id: null })
  expect(await errorStatus(conversation.navigateTo('none'))).toBe(404)
  await conversation.switchLlm({ model: 'scripted/second', usage_id: 'agent', script: [] })
  expect((await client.getConversation(conversation.id)).agent.llm.model).toBe('scripted/second')
  expect(await errorStatus(conversation.switchProfile(`none-${randomUUID()}`))).toBe(404)
  expect(await errorStatus(conversation.switchAcpModel('x'))).toBe(400)
  await conversation.close()
})

test('questions, secrets, analyzers, condensing, goals and interrupts', async () => {
  const condenser = {
    kind: 'LLMSummarizingCondenser',
    max_size: 240,
    keep_first: 1,
    llm: { model: 'scripted/test', script: [] },
  }
  // One of the two becomes the title.
  const side = [1, 2].map(() => ({ side: true, text: 'Because.' }))
  const { conversation } = await openConversation([bashStep('echo "[$TS_SECRET]"'), finishStep(), ...side], {
    condenser,
  })
  await conversation.updateSecrets({ TS_SECRET: 'secret-ts-canary', MADE: () => 'made-ts-canary' })
  await conversation.setSecurityAnalyzer({ kind: 'LLMSecurityAnalyzer' })
  await conversation.sendMessage('Begin.')
  await conversation.run()
  await waitUntilFinished(conversation)
  const { items } = await conversation.state.events.search({ limit: 100 })
  expect(JSON.stringify(items)).not.toContain('ts-canary')
  expect(await conversation.askAgent('Why?')).toBe('Because.')
  await conversation.condense().catch((error: unknown) => {
    if (!(error instanceof sdk.main.HttpError && error.status < 500)) throw error
  })
  expect([400, 422]).toContain(await errorStatus(conversation.startGoal('')))
  expect(await errorStatus(conversation.resumeGoal())).toBe(400)
  await conversation.stopGoal()
  const client = new sdk.clients.ConversationClient(options())
  expect(await errorStatus(client.startGoal(unknownId, { objective: 'x' }))).toBe(404)
  expect(await client.interruptConversation(conversation.id)).toMatchObject({ success: true })
  await conversation.pause()
  const trajectory = await conversation.downloadTrajectory()
  const bytes = Buffer.from(await trajectory.arrayBuffer())
  expect(bytes.subarray(0, 2).toString()).toBe('PK')
  await conversation.close()
})

test('a goal is pursued until it is judged complete, and the conversation gets a title', async () => {
  const judged = { side: true, text: JSON.stringify({ score: 1, complete: true, missing: '' }) }
  // The judge and the title are requested concurrently.
  const { conversation, events } = await openConversation([finishStep('Counted.'), judged, judged])
  await conversation.startGoal('Count to three', 3)
  const last = () => events.findLast((event) => 'key' in event && event.key === 'goal')
  await waitFor(() => JSON.stringify(last() ?? '').includes('"complete"'))
  expect(last()).toMatchObject({ value: { active: false, status: 'complete', objective: 'Count to three' } })
  const manager = new sdk.main.ConversationManager(options())
  await conversation.sendMessage('What was it about?')
  await waitFor(async () => ((await manager.getConversation(conversation.id)).title ?? '') !== '')
  await conversation.close()
})

test('uploads and downloads preserve bytes, and commands return exit code and both outputs', async () => {
  const [place, files] = [workspace(), new sdk.clients.FileClient(options())]
  const bytes = Uint8Array.from({ length: 200_000 }, (_, n) => (n * 17) % 256)
  const path = `${wire.directory}/up.json`
  await place.fileUpload(new Blob([bytes]), path)
  expect(Buffer.from(await files.downloadFile(path)).equals(bytes)).toBe(true)
  await place.uploadText('{"ä": 1}', path)
  expect(await place.downloadAsText(path)).toBe('{"ä": 1}')
  expect(await errorStatus(files.downloadFile(`${wire.directory}/none`))).toBe(404)
  expect(await errorStatus(files.uploadTextFile('x', 'relative.txt'))).toBe(400)
  expect(await place.executeCommand('echo out; echo err >&2; exit 3', wire.directory)).toMatchObject({
    exit_code: 3,
    stdout: 'out\n',
    stderr: 'err\n',
  })
  expect((await files.getHome()).home).toMatch(/^\//)
  await wire.runCommand(`mkdir -p '${wire.directory}/sub'`)
  expect((await files.searchSubdirectories(wire.directory)).items.map(({ name }) => name)).toContain('sub')
})

test('commands are started, fetched singly and in batches, and followed over their socket', async () => {
  const { bash: commands } = workspace()
  const heard: { kind?: string; stdout?: unknown }[] = []
  const errors: Error[] = []
  const socket = new sdk.main.BashWebSocketClient({
    ...options(),
    resendMode: 'all',
    callback: (event) => void heard.push(event),
    onError: (error) => void errors.push(error),
  })
  socket.start()
  const command = await commands.startCommand('echo over-the-socket', wire.directory, 20)
  await waitFor(() => heard.some(({ stdout }) => String(stdout).includes('over-the-socket')))
  socket.stop()
  const { items } = await commands.searchEvents({ command_id__eq: command.id, kind__eq: 'BashOutput' })
  expect(items.at(-1)).toMatchObject({ exit_code: 0 })
  expect((await commands.getEvents([command.id, unknownId])).map((event) => event?.id ?? null)).toEqual([
    command.id,
    null,
  ])
  expect((await commands.batchGetEvents([command.id, unknownId])).map((event) => event?.id ?? null)).toEqual([
    command.id,
    null,
  ])
  expect((await commands.clearEvents()).cleared_count).toBeGreaterThan(0)
  expect(errors).toEqual([])
})

test('git lists changes and diffs', async () => {
  const path = `${wire.directory}/repository`
  await wire.runCommand(`${makeRepositoryCommand(path)} && echo two >> '${path}/tracked.txt'`)
  const place = workspace(path)
  for (const query of [undefined, { ref: 'HEAD' }]) {
    const changes = await place.gitChanges(path, query)
    expect(changes.map((change) => change.path)).toEqual(['tracked.txt'])
    expect((await place.gitDiff(`${path}/tracked.txt`, query)).modified).toContain('two')
  }
})

test('settings are read, patched, and round-trip sealed; secrets are stored by name', async () => {
  const { settings } = new sdk.main.ConversationManager(options())
  expect(await settings.getAgentSchema()).toMatchObject({
    model_name: expect.any(String),
    sections: expect.any(Array),
  })
  expect(await settings.getConversationSchema()).toMatchObject({ sections: expect.any(Array) })
  await settings.updateSettings({
    agent_settings_diff: { llm: { model: 'openai/ts', api_key: 'ts-canary' } },
  })
  const masked = await settings.getSettings()
  expect(masked).toMatchObject({ agent_settings: { llm: { model: 'openai/ts' } }, llm_api_key_is_set: true })
  expect(JSON.stringify(masked)).not.toContain('ts-canary')
  const sealed = await settings.getSettings({ exposeSecrets: 'encrypted' })
  expect(JSON.stringify(sealed)).not.toContain('ts-canary')
  expect(await settings.getSettings({ exposeSecrets: 'plaintext' })).toMatchObject({
    agent_settings: { llm: { api_key: 'ts-canary' } },
  })
  expect(await errorStatus(settings.updateSettings({}))).toBe(400)
  const secret = `TS_${randomUUID().slice(0, 8)}`
  expect(await settings.upsertSecret({ name: secret, value: 'v 1', description: 'd' })).toMatchObject({
    name: secret,
  })
  expect((await settings.listSecrets()).secrets).toContainEqual({ name: secret, description: 'd' })
  expect(await settings.getSecret(secret)).toBe('v 1')
  expect(await settings.deleteSecret(secret)).toMatchObject({ deleted: true })
  expect(await errorStatus(settings.deleteSecret(secret))).toBe(404)
  expect(await errorStatus(settings.upsertSecret({ name: '1-x', value: 'x' }))).toBe(422)
  await settings.updateSettings({ agent_settings_diff: { llm: { api_key: null } } })
})

test('an LLM profile is saved, read, activated, renamed, validated and deleted', async () => {
  const { profiles } = new sdk.main.ConversationManager(options())
  const [first, second] = [uniqueName(), uniqueName()]
  const llm = { model: 'openai/ts', api_key: 'ts-canary', base_url: 'http://127.0.0.1:9/v1', num_retries: 0 }
  expect(await profiles.saveProfile(first, { llm, include_secrets: true })).toMatchObject({ name: first })
  const detail = await profiles.getProfile(first)
  expect(detail).toMatchObject({
    name: first,
    config: { model: 'openai/ts', api_key: null },
    api_key_set: true,
  })
  expect(await profiles.activateProfile(first)).toMatchObject({ llm_applied: true })
  await profiles.renameProfile(first, second)
  expect(await profiles.listProfiles()).toMatchObject({ active_profile: second })
  expect(await errorStatus(profiles.getProfile(first))).toBe(404)
  expect(await profiles.validateProfile(second, { llm })).toMatchObject({
    valid: false,
    error: { type: expect.any(String) },
  })
  expect(
    await profiles.validateProfile(second, { llm: { model: 'scripted/ok', script: [finishStep()] } }),
  ).toMatchObject({ valid: true })
  await profiles.deleteProfile(second)
  await profiles.deleteProfile(second)
})

test('agent profiles are saved, activated by id, renamed, made real and deleted', async () => {
  const { agentProfiles } = new sdk.main.ConversationManager(options())
  const [first, second] = [uniqueName(), uniqueName()]
  await agentProfiles.saveAgentProfile(first, { agent_kind: 'openhands', llm_profile_ref: 'none-such' })
  const { profile } = await agentProfiles.getAgentProfile(first)
  expect(await agentProfiles.activateAgentProfile(profile.id)).toMatchObject({ id: profile.id })
  expect((await agentProfiles.listAgentProfiles()).active_agent_profile_id).toBe(profile.id)
  await agentProfiles.renameAgentProfile(first, second)
  expect(await agentProfiles.materializeAgentProfile(second)).toMatchObject({
    valid: false,
    llm_profile_resolved: false,
  })
  await agentProfiles.deleteAgentProfile(second)
  expect(await errorStatus(agentProfiles.getAgentProfile(second))).toBe(404)
})

test("skills, plugins, sub-agents, hooks, models, MCP, workspaces and editors return what the client's classes read", async () => {
  const manager = new sdk.main.ConversationManager(options())
  const { skills } = await manager.skills.getSkills({
    load_public: false,
    load_org: false,
    project_dir: wire.directory,
  })
  expect(Array.isArray(skills)).toBe(true)
  expect(await errorStatus(manager.skills.refreshSkill('none-such'))).toBe(404)
  expect((await manager.skills.listInstalledSkills()).skills).toEqual(expect.any(Array))
  const plugins = new sdk.clients.PluginsClient(options())
  expect((await plugins.listInstalledPlugins()).plugins).toEqual(expect.any(Array))
  expect((await manager.subAgents.getSubAgents()).agents.length).toBeGreaterThan(0)
  expect(await manager.hooks.loadHooks({ project_dir: wire.directory })).toMatchObject({ hook_config: null })
  expect(await manager.llm.getProviders()).toContain('openai')
  expect((await manager.llm.getModels('openai')).length).toBeGreaterThan(0)
  expect(Object.keys(await manager.llm.getVerifiedModels()).length).toBeGreaterThan(0)
  expect(await manager.llm.getOpenAISubscriptionStatus()).toMatchObject({ connected: false })
  const server = { type: 'http' as const, url: 'http://127.0.0.1:9/mcp' }
  expect(await manager.mcp.testServer({ name: 'none', server, timeout: 5 })).toMatchObject({ ok: false })
  const folder = { id: randomUUID(), name: 'ts', path: wire.directory }
  expect((await manager.workspaces.addWorkspaces([folder])).workspaces.map(({ path }) => path)).toContain(
    wire.directory,
  )
  await manager.workspaces.deleteWorkspace(wire.directory)
  expect((await manager.workspaces.listWorkspaces()).workspaces.map(({ path }) => path)).not.toContain(
    wire.directory,
  )
  expect(await manager.vscode.getStatus()).toMatchObject({
    running: expect.any(Boolean),
    enabled: expect.any(Boolean),
  })
})

test('a workspace session is started and ended', async () => {
  const { conversation } = await openConversation([finishStep()])
  await workspace().uploadText('<p>page</p>', `${wire.directory}/page.html`)
  const base = await workspace().startWorkspaceSession(conversation.id)
  const response = await fetch(`${base}page.html`, { headers: wire.headers })
  expect([response.status, await response.text()]).toEqual([200, '<p>page</p>'])
  await workspace().deleteWorkspaceSession()
  await conversation.close()
})

test.skipIf(sessionKey === undefined)('a wrong key is refused everywhere', async () => {
  const manager = new sdk.main.ConversationManager({ host: wire.url, apiKey: 'wrong' })
  const calls = [
    manager.countConversations(),
    manager.settings.getSettings(),
    manager.profiles.listProfiles(),
  ]
  // Together, because one that fails while another is awaited would be an unhandled rejection.
  expect(await Promise.all(calls.map(errorStatus))).toEqual([401, 401, 401])
})
