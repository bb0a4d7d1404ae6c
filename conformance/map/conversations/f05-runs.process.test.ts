import { expect } from 'vitest'
import { differs, endFamily, mapCase } from '../frame.ts'
import {
  commandReply,
  finishReply,
  heldReply,
  type Json,
  type MapClient,
  OwnMapServer,
  openMapServer,
  openModel,
  toolReply,
  unknownId,
  waitFor,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer()
const own = { hasOwnServer: true }
const plain = { autotitle: false }

/** A conversation with an unread message. */
async function withMessage(
  model: Parameters<MapClient['createConversation']>[0],
  more: object = {},
  on: MapClient = server,
) {
  const info = await on.createConversation(model, { ...plain, ...more })
  await on.sendMessage(info.id, 'Begin.')
  return info
}

/** A conversation whose model call hangs. */
async function hanging(on: MapClient = server) {
  const held = heldReply(finishReply())
  const model = await server.openModel()
  model.replies = [held.reply(model), finishReply()]
  const { id } = await withMessage(model, {}, on)
  expect((await on.post(id, 'run')).status).toBe(200)
  await held.arrived
  return { id, held, model }
}

const kinds = async (id: string, kind: string, on: MapClient = server) =>
  (await on.getEvents(id)).filter((event) => event.kind === kind)

mapCase('F05.run-queued', 'run answers at once, and the socket sees running and finished', async () => {
  const { id } = await withMessage(await server.openModel(finishReply()))
  expect((await server.getConversation(id)).execution_status).toBe('idle')
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  expect(await server.post(id, 'run')).toMatchObject({ status: 200, body: { success: true } })
  const frames = await waitForFrames(socket, (all) =>
    all.some(({ key, value }) => key === 'execution_status' && value === 'finished'),
  )
  expect(frames.filter(({ key }) => key === 'execution_status').map(({ value }) => value)).toEqual([
    'running',
    'finished',
  ])
})

mapCase('F05.run-finished-noop', 'a run of a finished conversation changes nothing', async () => {
  const model = await server.openModel(finishReply())
  const { id } = await withMessage(model)
  await server.post(id, 'run')
  await server.waitForStatus(id, 'finished')
  const before = await server.getEvents(id)
  const calls = model.requests.length
  expect((await server.post(id, 'run')).status).toBe(200)
  await server.requestOrThrow('GET', `/api/conversations/${id}`)
  await server.waitForStatus(id, 'finished')
  expect(await server.getEvents(id)).toEqual(before)
  expect(model.requests).toHaveLength(calls)
})

mapCase(
  'F05.run-new-input',
  'a new message makes a finished conversation idle, and it runs again',
  async () => {
    const { id } = await withMessage(await server.openModel(finishReply()))
    await server.post(id, 'run')
    await server.waitForStatus(id, 'finished')
    await server.sendMessage(id, 'Again.')
    expect((await server.getConversation(id)).execution_status).toBe('idle')
    expect((await server.post(id, 'run')).status).toBe(200)
    await server.waitForStatus(id, 'finished')
    expect((await kinds(id, 'MessageEvent')).filter(({ source }) => source === 'user')).toHaveLength(2)
  },
)

mapCase('F05.pause-idle', 'a pause of an idle conversation is seen everywhere', async () => {
  const { id } = await server.createConversation()
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  expect((await server.post(id, 'pause')).status).toBe(200)
  expect((await server.getConversation(id)).execution_status).toBe('paused')
  await waitForFrames(socket, (frames) => frames.some(({ value }) => value === 'paused'))
  expect(await kinds(id, 'PauseEvent')).toHaveLength(1)
  const query = { status: 'paused', limit: '100' }
  const found = await server.requestOrThrow<{ items: Json[] }>('GET', '/api/conversations/search', { query })
  expect(found.items.map((one) => one.id)).toContain(id)
})

mapCase('F05.pause-repeat', 'a second pause adds no event', async () => {
  const { id } = await server.createConversation()
  for (const _ of [1, 2]) expect((await server.post(id, 'pause')).status).toBe(200)
  expect(await kinds(id, 'PauseEvent')).toHaveLength(1)
})

mapCase('F05.run-resume-paused', 'a run resumes a paused conversation', async () => {
  const { id } = await withMessage(await server.openModel(finishReply()))
  await server.post(id, 'pause')
  expect((await server.post(id, 'run')).status).toBe(200)
  await server.waitForStatus(id, 'finished')
})

mapCase('F05.interrupt-idle', 'an interrupt of an idle conversation is a pause', async () => {
  const { id } = await server.createConversation()
  expect((await server.post(id, 'interrupt')).status).toBe(200)
  expect((await server.getConversation(id)).execution_status).toBe('paused')
  expect(await kinds(id, 'PauseEvent')).toHaveLength(1)
  expect(await kinds(id, 'InterruptEvent')).toHaveLength(0)
})

/** A conversation whose provider refuses connections, after its run. */
async function failed(on: MapClient = server): Promise<string> {
  const llm = {
    model: 'openai/gpt-4o',
    api_key: 'k',
    base_url: 'http://127.0.0.1:9/v1',
    num_retries: 0,
    usage_id: 'agent',
  }
  const { id } = await on.createConversation(undefined, {
    ...plain,
    agent: { kind: 'Agent', llm, tools: [] },
  })
  await on.sendMessage(id, 'Begin.', true)
  await on.waitForStatus(id, 'error')
  return id
}

mapCase('F05.run-error', 'a provider that cannot be reached ends in error', async () => {
  const id = await failed()
  expect(await kinds(id, 'ConversationErrorEvent')).toHaveLength(1)
  const query = { status: 'error', limit: '100' }
  const found = await server.requestOrThrow<{ items: Json[] }>('GET', '/api/conversations/search', { query })
  expect(found.items.map((one) => one.id)).toContain(id)
})

mapCase('F05.pause-terminal', 'pause and interrupt change no finished or failed conversation', async () => {
  const { id } = await withMessage(await server.openModel(finishReply()))
  await server.post(id, 'run')
  await server.waitForStatus(id, 'finished')
  for (const one of [id, await failed()]) {
    const before = await server.getEvents(one)
    const { execution_status } = await server.getConversation(one)
    for (const verb of ['pause', 'interrupt']) expect((await server.post(one, verb)).status).toBe(200)
    expect((await server.getConversation(one)).execution_status).toBe(execution_status)
    expect(await server.getEvents(one)).toEqual(before)
  }
})

mapCase('F05.run-error-responsive', 'other requests are answered while a run fails', async () => {
  const failing = failed()
  for (let n = 0; n < 20; n++) expect(await server.requestStatus('GET', '/alive')).toBe(200)
  await failing
})

mapCase('F05.unknown-id-run', 'a run of an unknown conversation is 404', async () => {
  expect((await server.post(unknownId, 'run')).status).toBe(404)
})

mapCase('F05.unknown-id-pause', 'pause and interrupt of an unknown conversation are 404', async () => {
  for (const verb of ['pause', 'interrupt']) expect((await server.post(unknownId, verb)).status).toBe(404)
})

mapCase('F05.control-errors', '401 and 422 touch nothing', async () => {
  const { id } = await server.createConversation()
  for (const verb of ['run', 'pause', 'interrupt']) {
    const path = `/api/conversations/${id}/${verb}`
    expect(await server.requestStatus('POST', path, { isAnonymous: true })).toBe(401)
    const headers = { 'x-session-api-key': 'wrong' }
    expect(await server.requestStatus('POST', path, { isAnonymous: true, headers })).toBe(401)
    expect((await server.post('no-uuid', verb)).status).toBe(422)
  }
  expect((await server.getConversation(id)).execution_status).toBe('idle')
  expect(await kinds(id, 'PauseEvent')).toEqual([])
})

mapCase('F05.run-conflict', 'a second run is 409 and the first continues', async () => {
  const { id, held, model } = await hanging()
  expect(await server.post(id, 'run')).toMatchObject({
    status: 409,
    body: { detail: expect.stringContaining('Conversation already running') },
  })
  held.release()
  await server.waitForStatus(id, 'finished')
  expect(model.requests).toHaveLength(1)
})

/** A run that was paused in a model call, and then run again. */
async function runWhilePausing() {
  const { id, held, model } = await hanging()
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  expect((await server.post(id, 'pause')).status).toBe(200)
  await waitForFrames(socket, (frames) => frames.some(({ value }) => value === 'paused'))
  expect(await kinds(id, 'PauseEvent')).toHaveLength(1)
  const { status } = await server.post(id, 'run')
  held.release()
  return { id, status, model }
}

differs(
  'F05.pause-running',
  'a pause in a model call answers at once; run stays 409',
  'run while the model call of a paused run continues',
  async () => {
    const { id, status, model } = await runWhilePausing()
    expect(status).toBe(200)
    await server.waitForStatus(id, 'finished')
    expect(model.requests).toHaveLength(1)
  },
  async () => {
    expect((await runWhilePausing()).status).toBe(409)
  },
)

mapCase(
  'F05.pause-running-get',
  'a pause in a model call is seen by GET at once',
  async () => {
    const { id, held } = await hanging()
    await server.post(id, 'pause')
    expect((await server.getConversation(id)).execution_status).toBe('paused')
    held.release()
  },
  { faultThere: 'GET still says running' },
)

mapCase('F05.pause-running-release', 'an interrupt after a pause cancels the call', async () => {
  const { id, held } = await hanging()
  await server.post(id, 'pause')
  expect((await server.post(id, 'interrupt')).status).toBe(200)
  await server.waitForEvent(id, ({ kind }) => kind === 'InterruptEvent')
  await server.waitForStatus(id, 'paused')
  held.release()
  expect((await server.post(id, 'run')).status).toBe(200)
  await server.waitForStatus(id, 'finished')
})

mapCase('F05.interrupt-running', 'an interrupt cancels a model call', async () => {
  const { id, held } = await hanging()
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  expect((await server.post(id, 'interrupt')).status).toBe(200)
  await server.waitForStatus(id, 'paused')
  expect(await kinds(id, 'InterruptEvent')).toHaveLength(1)
  expect(await kinds(id, 'PauseEvent')).toHaveLength(0)
  await waitForFrames(socket, (frames) => frames.some(({ kind }) => kind === 'InterruptEvent'))
  held.release()
})

mapCase('F05.run-after-interrupt', 'a run after an interrupt is accepted at once', async () => {
  const { id, held } = await hanging()
  await server.post(id, 'interrupt')
  expect((await server.post(id, 'run')).status).toBe(200)
  held.release()
  await server.waitForStatus(id, 'finished')
})

/** A conversation in a command that ends when a file is there. */
async function inCommand() {
  const release = `${server.directory}/${crypto.randomUUID()}`
  const wait = `for i in $(seq 600); do [ -e ${release} ] && break; sleep 0.1; done; echo STEP_DONE`
  const model = await server.openModel(commandReply(wait), finishReply())
  const { id } = await withMessage(model)
  await server.post(id, 'run')
  await server.waitForEvent(id, ({ kind }) => kind === 'ActionEvent')
  return { id, model, release: () => server.runCommand(`touch ${release}`) }
}

mapCase(
  'F05.pause-tool-step',
  'a pause in a tool call lets it end, and stops before the next question',
  async () => {
    const { id, model, release } = await inCommand()
    expect((await server.post(id, 'pause')).status).toBe(200)
    await release()
    await server.waitForEvent(id, ({ kind }) => kind === 'ObservationEvent')
    await server.waitForStatus(id, 'paused')
    expect(await kinds(id, 'PauseEvent')).toHaveLength(1)
    expect(model.requests).toHaveLength(1)
  },
)

mapCase('F05.interrupt-tool-call', 'an interrupt in a tool call answers it with an error', async () => {
  const { id, model, release } = await inCommand()
  expect((await server.post(id, 'interrupt')).status).toBe(200)
  await server.waitForStatus(id, 'paused')
  const events = await server.getEvents(id)
  const action = events.find(({ kind }) => kind === 'ActionEvent')
  const error = events.find(({ kind }) => kind === 'AgentErrorEvent')
  expect(events.map(({ kind }) => kind)).toContain('InterruptEvent')
  expect(events.map(({ kind }) => kind)).not.toContain('ObservationEvent')
  expect(error?.tool_call_id).toBe(action?.tool_call_id)
  expect(error?.error).toContain('interrupted before completion')
  expect((await server.post(id, 'run')).status).toBe(200)
  await server.waitForStatus(id, 'finished')
  expect(JSON.stringify(model.requests.at(-1)?.body)).toContain('interrupted before completion')
  await release()
})

mapCase(
  'F05.run-capacity',
  'a run above the limit is 429 and leaves the conversation idle',
  async () => {
    await using limited = await OwnMapServer.open({ key: 'k', env: { SLIPWAY_MAX_CONCURRENT_RUNS: '1' } })
    const model = await server.openModel(finishReply())
    const other = await withMessage(model, {}, limited)
    const { id, held } = await hanging(limited)
    expect(await limited.post(other.id, 'run')).toMatchObject({
      status: 429,
      body: { detail: 'Conversation run limit reached. Retry the request later.' },
    })
    expect((await limited.getConversation(other.id)).execution_status).toBe('idle')
    await limited.post(id, 'interrupt')
    await limited.waitForStatus(id, 'paused')
    expect(
      (
        await waitFor(
          () => limited.post(other.id, 'run'),
          ({ status }) => status !== 429,
        )
      ).status,
    ).toBe(200)
    held.release()
  },
  own,
)

/** A stuck conversation. */
async function stuck() {
  const model = await server.openModel(toolReply('think', { thought: 'LOOP' }))
  const { id } = await withMessage(model)
  await server.post(id, 'run')
  await server.waitForStatus(id, 'stuck', 'error', 'finished')
  return { id, model }
}

mapCase('F05.stuck-detected', 'four identical steps are stuck', async () => {
  const { id, model } = await stuck()
  expect((await server.getConversation(id)).execution_status).toBe('stuck')
  expect(model.requests).toHaveLength(4)
  expect(await kinds(id, 'ConversationErrorEvent')).toEqual([])
  const query = { status: 'stuck', limit: '100' }
  const found = await server.requestOrThrow<{ items: Json[] }>('GET', '/api/conversations/search', { query })
  expect(found.items.map((one) => one.id)).toContain(id)
})

/** How many questions a run of a stuck conversation asks. */
async function rerunStuck(): Promise<number> {
  const { id, model } = await stuck()
  const calls = model.requests.length
  expect((await server.post(id, 'run')).status).toBe(200)
  await server.waitForStatus(id, 'stuck')
  return model.requests.length - calls
}

differs(
  'F05.stuck-rerun',
  'a run without a new message is stuck again without a question',
  'run of a stuck conversation',
  async () => expect(await rerunStuck()).toBeGreaterThan(0),
  async () => expect(await rerunStuck()).toBe(0),
)

mapCase('F05.stuck-new-input', 'a new message makes a stuck conversation idle, and it runs', async () => {
  const { id, model } = await stuck()
  model.replies = [finishReply()]
  await server.sendMessage(id, 'Continue.')
  expect((await server.getConversation(id)).execution_status).toBe('idle')
  await server.post(id, 'run')
  await server.waitForStatus(id, 'finished')
})

async function capped() {
  const model = await server.openModel(toolReply('think', { thought: 'CAP' }))
  const { id } = await withMessage(model, { max_iterations: 6, stuck_detection: false })
  await server.post(id, 'run')
  await server.waitForStatus(id, 'error')
  return { id, model }
}

mapCase('F05.max-iterations-stop', 'the limit of steps is an error after exactly as many calls', async () => {
  const { id, model } = await capped()
  expect(model.requests).toHaveLength(6)
  const errors = await kinds(id, 'ConversationErrorEvent')
  expect(errors).toMatchObject([{ code: 'MaxIterationsReached', detail: expect.stringContaining('(6)') }])
})

mapCase('F05.max-iterations-resume', 'each run has a fresh limit', async () => {
  const { id, model } = await capped()
  expect((await server.post(id, 'run')).status).toBe(200)
  await waitFor(
    () => kinds(id, 'ConversationErrorEvent'),
    (errors) => errors.length === 2,
  )
  expect(model.requests).toHaveLength(12)
  model.replies = [finishReply()]
  await waitFor(
    () => server.post(id, 'run'),
    ({ status }) => status === 200,
  )
  await server.waitForStatus(id, 'finished')
})

mapCase(
  'F05.restart-running-graceful',
  'a run at a graceful stop comes back paused',
  async () => {
    await using server = await OwnMapServer.open({ isProcess: true, key: 'k' })
    const { id, held } = await hanging(server)
    await server.stop()
    held.release()
    await server.start()
    expect((await server.getConversation(id)).execution_status).toBe('paused')
    expect(await kinds(id, 'PauseEvent', server)).toHaveLength(1)
    expect(await kinds(id, 'InterruptEvent', server)).toHaveLength(1)
  },
  own,
)

mapCase(
  'F05.restart-keeps-status',
  'a restart keeps statuses',
  async () => {
    await using server = await OwnMapServer.open({ key: 'k' })
    await using model = await openModel(finishReply())
    const finished = await withMessage(model, {}, server)
    await server.post(finished.id, 'run')
    await server.waitForStatus(finished.id, 'finished')
    const paused = await server.createConversation(model)
    await server.post(paused.id, 'pause')
    const error = await failed(server)
    await server.restart()
    for (const [id, status] of [
      [finished.id, 'finished'],
      [paused.id, 'paused'],
      [error, 'error'],
    ] as const)
      expect((await server.getConversation(id)).execution_status).toBe(status)
  },
  own,
)

differs(
  'F05.restart-hard-running',
  'a run at a kill comes back as error, and runs again',
  'a run that a kill cut',
  async () => {
    await using server = await OwnMapServer.open({ isProcess: true, key: 'k' })
    const cut = await hanging(server)
    await server.stop('SIGKILL')
    cut.held.release()
    await server.start()
    await server.waitForStatus(cut.id, 'finished')
    await server.restart('SIGTERM', { SLIPWAY_MAX_RUN_RECOVERIES: '0' })
    const { id, held } = await hanging(server)
    await server.stop('SIGKILL')
    held.release()
    await server.start({ SLIPWAY_MAX_RUN_RECOVERIES: '0' })
    expect((await server.getConversation(id)).execution_status).toBe('error')
    expect((await server.post(id, 'run')).status).toBe(200)
    await server.waitForStatus(id, 'finished')
  },
)

mapCase(
  'F05.pause-running-crash',
  'a pause in a model call outlives a kill',
  async () => {
    await using server = await OwnMapServer.open({ isProcess: true, key: 'k' })
    const { id, held } = await hanging(server)
    await server.post(id, 'pause')
    await server.stop('SIGKILL')
    held.release()
    await server.start()
    expect((await server.getConversation(id)).execution_status).toBe('paused')
  },
  { ...own, faultThere: 'error' },
)

endFamily('F05', 31)
