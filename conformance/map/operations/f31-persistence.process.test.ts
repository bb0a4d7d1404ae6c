import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { countLoaded, expectAnswer, filesWith } from '../answers.ts'
import { differs, endFamily, mapCase, notApplicable } from '../frame.ts'
import {
  commandReply,
  finishReply,
  heldReply,
  OwnMapServer,
  openModel,
  waitFor,
  waitForFrames,
} from '../map-server.ts'
import { ConfiguredServer } from './configured-server.ts'
import { defineLeaseCases } from './leases.ts'

const own = { hasOwnServer: true }
const key = 'map-key-2'
const secretKey = { SLIPWAY_SECRET_KEY: 'a-secret-key-of-the-map' }

defineLeaseCases()

mapCase(
  'F31.crash-tool-call',
  'a call that a kill interrupted is answered once, and the model is told',
  async () => {
    await using server = await OwnMapServer.open({ isProcess: true, key })
    await using model = await openModel(commandReply('sleep 300', { timeout: 400 }), finishReply())
    const { id } = await server.createConversation(model)
    await server.sendMessage(id, 'Go.', true)
    const events = await server.waitForEvent(id, ({ kind }) => kind === 'ActionEvent')
    const call = events.find(({ kind }) => kind === 'ActionEvent')?.tool_call_id
    await server.restart('SIGKILL')
    const { execution_status } = await server.waitForStatus(id, 'error', 'finished', 'paused')
    expect(execution_status).toBe('finished')
    const after = await server.getEvents(id)
    const errors = after.filter(({ kind }) => kind === 'AgentErrorEvent')
    expect(errors.map(({ tool_call_id }) => tool_call_id)).toEqual([call])
    expect(JSON.stringify(model.requests.at(-1)?.body)).toMatch(/restart/i)
  },
  own,
)
mapCase(
  'F31.state-survives-restarts',
  'conversations, settings, secrets and profiles after a stop and after a kill',
  async () => {
    await using server = await OwnMapServer.open({ isProcess: true, key, env: secretKey })
    const { id } = await server.createConversation()
    await server.sendMessage(id, 'Kept.')
    const body = { title: 'Kept title', tags: { kept: 'yes' } }
    await server.requestOrThrow('PATCH', `/api/conversations/${id}`, { body })
    await server.requestOrThrow('PUT', '/api/settings/secrets', {
      body: { name: 'KEPT', value: 'kept-value' },
    })
    const llm = { model: 'openai/kept', api_key: 'kept-key' }
    await server.requestOrThrow('POST', '/api/profiles/kept', { body: { llm } })
    const events = await server.getEvents(id)
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await server.restart(signal)
      expect(await server.getConversation(id)).toMatchObject(body)
      expect(await server.getEvents(id)).toEqual(events)
      expect((await server.request('GET', '/api/settings/secrets/KEPT')).body).toBe('kept-value')
      await expectAnswer(server, 200, 'GET', '/api/profiles/kept', {}, { config: { model: 'openai/kept' } })
    }
  },
  own,
)
mapCase(
  'F31.no-plaintext-at-rest',
  'no stored file and no log has a key or a secret',
  async () => {
    await using server = await OwnMapServer.open({ isProcess: true, key, env: secretKey })
    await using model = await openModel(commandReply('true'), finishReply())
    const value = 'map-stored-secret-8c41'
    await server.requestOrThrow('PUT', '/api/settings/secrets', { body: { name: 'STORED', value } })
    const { id } = await server.createConversation(undefined, {
      agent: {
        kind: 'Agent',
        llm: model.llm('chat', { api_key: 'map-provider-key-11' }),
        tools: [{ name: 'terminal' }],
      },
      secrets: { OWN: 'map-conversation-secret-5e07' },
    })
    await server.sendMessage(id, 'Go.', true)
    await server.waitForStatus(id, 'finished')
    await server.stop()
    for (const text of [value, 'map-provider-key-11', 'map-conversation-secret-5e07']) {
      expect([text, await filesWith(server, text)]).toEqual([text, []])
      expect(server.output()).not.toContain(text)
    }
  },
  own,
)
const idle = { SLIPWAY_CONVERSATION_IDLE_SECONDS: '1' }
mapCase(
  'F31.idle-eviction',
  'a resting conversation leaves the memory and comes back',
  async () => {
    await using server = await OwnMapServer.open({ key, env: idle })
    await using model = await openModel(finishReply())
    const { id } = await server.createConversation(model, { autotitle: false })
    await server.sendMessage(id, 'Kept.')
    expect(await countLoaded(server)).toBe(1)
    const before = await server.getEvents(id)
    await waitFor(
      () => countLoaded(server),
      (count) => count === 0,
    )
    expect(await server.getEvents(id)).toEqual(before)
    await server.sendMessage(id, 'Again.', true)
    await server.waitForStatus(id, 'finished')
    expect(JSON.stringify(model.requests.at(-1)?.body)).toMatch(/Kept\..*Again\./)
  },
  own,
)
mapCase(
  'F31.eviction-skips-busy',
  'sockets and runs keep a conversation in memory',
  async () => {
    await using server = await OwnMapServer.open({ key, env: idle })
    await using model = await openModel()
    const held = heldReply(finishReply('Held.'))
    model.replies = [held.reply(model), finishReply()]
    const [running, watched] = [
      await server.createConversation(model),
      await server.createConversation(model),
    ]
    await server.sendMessage(running.id, 'Go.', true)
    await held.arrived
    await server.sendMessage(watched.id, 'Watched.')
    await using socket = server.openSocket(`/sockets/events/${watched.id}`)
    await waitForFrames(socket, (frames) => frames.length > 0)
    await sleep(4_000)
    expect((await server.getConversation(running.id)).execution_status).toBe('running')
    held.release()
    await server.waitForStatus(running.id, 'finished')
    await server.sendMessage(watched.id, 'Seen.')
    await waitForFrames(socket, (frames) => JSON.stringify(frames).includes('Seen.'))
  },
  own,
)
mapCase(
  'F31.create-capacity',
  'a full server makes no conversation that would run',
  async () => {
    await using server = await OwnMapServer.open({ key, env: { SLIPWAY_MAX_CONCURRENT_RUNS: '1' } })
    await using model = await openModel()
    const held = heldReply(finishReply())
    model.replies = [held.reply(model), finishReply()]
    const { id } = await server.createConversation(model)
    await server.sendMessage(id, 'Go.', true)
    await held.arrived
    const body = server.conversationRequest(model)
    const count = () => server.requestOrThrow('GET', '/api/conversations/count')
    const before = await count()
    await expectAnswer(server, 429, 'POST', '/api/conversations', { body })
    expect(await count()).toEqual(before)
    held.release()
    await server.waitForStatus(id, 'finished')
    await expectAnswer(server, 201, 'POST', '/api/conversations', { body })
  },
  own,
)
mapCase(
  'F31.config-precedence',
  'variables win over the file',
  async () => {
    await using server = await ConfiguredServer.open('app_backend_url = "http://file.example"')
    expect(await server.ingressUrl()).toBe('http://file.example')
    await server.restart({ SLIPWAY_APP_BACKEND_URL: 'http://variable.example' })
    expect(await server.ingressUrl()).toBe('http://variable.example')
    await server.restart()
    expect(await server.ingressUrl()).toBe('http://file.example')
  },
  own,
)
differs(
  'F31.config-null-override',
  'a variable clears a value of the file',
  'a variable that clears a setting of the configuration file',
  async () => {
    await using server = await ConfiguredServer.open('app_backend_url = "http://file.example"')
    await server.restart({ SLIPWAY_APP_BACKEND_URL: '' })
    expect(await server.ingressUrl()).toBe('http://file.example')
    await server.restart({}, ['--no-config'])
    expect(await server.ingressUrl()).toBe(null)
  },
)
mapCase(
  'F31.config-invalid-fails-fast',
  'a limit that is no number stops the start',
  async () => {
    await expect(OwnMapServer.open({ key, env: { SLIPWAY_MAX_CONCURRENT_RUNS: 'many' } })).rejects.toThrow(
      'SLIPWAY_MAX_CONCURRENT_RUNS',
    )
  },
  own,
)
differs(
  'F31.config-silent-env',
  'unknown words in variables are ignored',
  'words of settings that mean nothing',
  async () => {
    for (const [name, value] of [
      ['SLIPWAY_DEFERRED_INIT', 'perhaps'],
      ['SLIPWAY_LOG_LEVEL', 'Loud'],
    ] as const)
      await expect(OwnMapServer.open({ key, env: { [name]: value } })).rejects.toThrow(name)
    await expect(ConfiguredServer.open('deferred_init = "perhaps"')).rejects.toThrow(
      /agent_server\.deferred_init: Should be true or false/,
    )
    await using server = await ConfiguredServer.open('deferred_init = true')
    await expectAnswer(server, 503, 'GET', '/api/conversations/count')
    await server.restart({ SLIPWAY_DEFERRED_INIT: 'no' })
    await expectAnswer(server, 200, 'GET', '/api/conversations/count')
  },
)
notApplicable(
  'F31.tmux-dir-cleanup',
  'the directory of tmux',
  'terminals are ptys of the server; there is no tmux',
)
notApplicable(
  'F31.storage-retention',
  'stopped containers are archived',
  'sandboxes belong to the sandbox server; SLIPWAY_RETENTION_DAYS is about conversations',
)

endFamily('F31', 23)
