import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { errorReply } from '../../support/mock-provider.ts'
import { endFamily, mapCase } from '../frame.ts'
import {
  commandReply,
  finishReply,
  heldReply,
  type Json,
  type MapClient,
  OwnMapServer,
  openMapServer,
  type openModel,
  unknownId,
  waitFor,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer()
const plain = { autotitle: false }
const own = { hasOwnServer: true }
const incomplete = { text: '{"score": 0.2, "complete": false, "missing": "MAP_MISSING"}' }
const complete = { text: '{"score": 1, "complete": true, "missing": ""}' }
type Model = Awaited<ReturnType<typeof openModel>>

interface GoalStatus {
  readonly active: boolean
  readonly status: string
  readonly iteration: number
  readonly max_iterations: number
  readonly objective: string
  readonly verdict: Json | null
}

const start = (
  id: string,
  body: object = { objective: 'OBJECTIVE', max_iterations: 3 },
  on: MapClient = server,
) => on.post(id, 'goal', body)
const goals = async (id: string, on: MapClient = server): Promise<GoalStatus[]> =>
  (await on.getEvents(id)).filter(({ key }) => key === 'goal').map(({ value }) => value as GoalStatus)
const waitForGoal = (id: string, status: string, on: MapClient = server) =>
  waitFor(
    () => goals(id, on),
    (all) => all.at(-1)?.status === status,
  )
const userTexts = async (id: string, on: MapClient = server) =>
  (await on.getEvents(id))
    .filter(({ kind, source }) => kind === 'MessageEvent' && source === 'user')
    .map(({ llm_message }) => JSON.stringify(llm_message))

/** A conversation whose agent ends each round at once; `verdict` answers the judge. */
async function withJudge(verdict: Model['replyWithoutTools'], on: MapClient = server) {
  const isText = typeof verdict !== 'function'
  const model = await server.openModel(...(isText ? [verdict] : [{ text: 'Round done.' }, verdict]))
  model.replyWithoutTools = verdict
  const agent = { kind: 'Agent', llm: model.llm('chat', { num_retries: 0 }), tools: [{ name: 'terminal' }] }
  const { id } = await on.createConversation(model, { ...plain, agent })
  return { id, model }
}

/** A conversation whose first round hangs. */
async function inRound(on: MapClient = server, verdict: Model['replyWithoutTools'] = complete) {
  const { id, model } = await withJudge(verdict, on)
  const held = heldReply({ text: 'Round done.' })
  model.replies = [held.reply(model), verdict]
  expect((await start(id, undefined, on)).status).toBe(200)
  await held.arrived
  return { id, model, held }
}

mapCase('F11.goal-validation', 'invalid goals record nothing', async () => {
  const { id } = await server.createConversation(undefined, plain)
  for (const objective of ['', '   '])
    expect(await start(id, { objective })).toMatchObject({
      status: 400,
      body: { detail: 'Goal objective must not be empty.' },
    })
  for (const [body, name] of [
    [{ objective: 'x', max_iterations: 0 }, 'max_iterations'],
    [{ max_iterations: 2 }, 'objective'],
  ] as const) {
    const found = await start(id, body)
    expect(found).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', name] }] } })
  }
  expect(await server.getEvents(id)).toEqual([])
})

mapCase('F11.goal-unknown-id', 'unknown ids are 404, malformed ones 422', async () => {
  for (const [id, status] of [
    [unknownId, 404],
    ['no-uuid', 422],
  ] as const) {
    expect((await start(id)).status).toBe(status)
    for (const verb of ['goal/stop', 'goal/resume'])
      expect((await server.post(id, verb)).status, verb).toBe(status)
  }
})

mapCase('F11.goal-auth', 'the routes need a key', async () => {
  const { id } = await server.createConversation(undefined, plain)
  for (const verb of ['goal', 'goal/stop', 'goal/resume']) {
    const options = { body: { objective: 'x' }, isAnonymous: true }
    expect(await server.requestStatus('POST', `/api/conversations/${id}/${verb}`, options)).toBe(401)
  }
  expect((await server.post(id, 'goal/stop')).status).toBe(200)
})

mapCase('F11.goal-stop-noop', 'a stop without a goal records nothing', async () => {
  const { id } = await server.createConversation(undefined, plain)
  expect((await server.post(id, 'goal/stop')).status).toBe(200)
  expect(await server.getEvents(id)).toEqual([])
})

mapCase('F11.goal-resume-none', 'nothing to resume is 400', async () => {
  const { id } = await server.createConversation(undefined, plain)
  expect(await server.post(id, 'goal/resume')).toMatchObject({
    status: 400,
    body: { detail: 'no_resumable_goal' },
  })
  expect(await server.getEvents(id)).toEqual([])
})

mapCase('F11.goal-complete', 'a goal that the judge calls complete', async () => {
  const { id } = await withJudge(complete)
  expect(await start(id)).toMatchObject({ status: 200, body: { success: true } })
  const all = await waitForGoal(id, 'complete')
  expect(all.at(-1)).toMatchObject({ active: false, verdict: { complete: true } })
  expect((await server.getConversation(id)).execution_status).toBe('finished')
})

mapCase('F11.goal-ws', 'the socket sees the first and the last status', async () => {
  const { id } = await withJudge(complete)
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  await start(id)
  const statuses = (
    await waitForFrames(socket, (frames) =>
      frames.some(({ key, value }) => key === 'goal' && (value as GoalStatus).status === 'complete'),
    )
  )
    .filter(({ key }) => key === 'goal')
    .map(({ value }) => (value as GoalStatus).status)
  expect(statuses[0]).toBe('running')
  expect(statuses.at(-1)).toBe('complete')
})

mapCase('F11.goal-in-place', 'the work is in the same conversation', async () => {
  const { id, model } = await withJudge(complete)
  model.replies = [commandReply('echo hi'), complete]
  const before = await server.requestOrThrow('GET', '/api/conversations/count')
  await start(id)
  await waitForGoal(id, 'complete')
  expect(await server.requestOrThrow('GET', '/api/conversations/count')).toBe(before)
  expect((await userTexts(id))[0]).toContain('OBJECTIVE')
  expect((await server.getEvents(id)).map(({ kind }) => kind)).toContain('ObservationEvent')
})

mapCase('F11.goal-followup', 'an incomplete verdict is told to the agent in another round', async () => {
  const { id } = await withJudge(incomplete)
  await start(id)
  const all = await waitForGoal(id, 'capped')
  expect(all[0]).toMatchObject({ active: true, status: 'running', iteration: 0, verdict: null })
  expect(all).toContainEqual(
    expect.objectContaining({
      status: 'running',
      iteration: 1,
      verdict: expect.objectContaining({ complete: false }),
    }),
  )
  const texts = await userTexts(id)
  expect(texts[1]).toContain('MAP_MISSING')
  expect(texts[1]).toContain('audit iteration 1')
})

mapCase('F11.goal-capped', 'the cap ends the loop after as many rounds', async () => {
  const { id, model } = await withJudge(incomplete)
  await start(id, { objective: 'OBJECTIVE', max_iterations: 2 })
  expect((await waitForGoal(id, 'capped')).at(-1)).toMatchObject({
    active: false,
    iteration: 2,
    max_iterations: 2,
  })
  expect(model.requests).toHaveLength(4)
})

mapCase('F11.goal-resume-finished', 'an ended goal cannot be resumed', async () => {
  for (const verdict of [complete, incomplete]) {
    const { id } = await withJudge(verdict)
    await start(id, { objective: 'x', max_iterations: 1 })
    await waitForGoal(id, verdict === complete ? 'complete' : 'capped')
    const found = await waitFor(
      () => server.post(id, 'goal/resume'),
      ({ status }) => status !== 409,
    )
    expect(found).toMatchObject({ status: 400, body: { detail: 'no_resumable_goal' } })
  }
})

mapCase('F11.goal-busy', 'a goal in a round refuses goals and runs; the default cap is 10', async () => {
  const { id, model } = await withJudge(complete)
  const held = heldReply(finishReply())
  model.replies = [held.reply(model), finishReply()]
  await start(id, { objective: 'OBJECTIVE' })
  await held.arrived
  expect((await goals(id))[0]).toMatchObject({ max_iterations: 10 })
  const before = await goals(id)
  expect(await start(id)).toMatchObject({
    status: 409,
    body: { detail: 'Conversation run or goal loop already running.' },
  })
  expect((await server.post(id, 'goal/resume')).status).toBe(409)
  expect((await server.post(id, 'run')).status).toBe(409)
  expect(await goals(id)).toEqual(before)
  held.release()
})

mapCase('F11.goal-stop', 'a stop ends the loop and lets the round continue', async () => {
  const { id, held } = await inRound()
  expect((await server.post(id, 'goal/stop')).status).toBe(200)
  expect((await waitForGoal(id, 'interrupted')).at(-1)).toMatchObject({
    active: false,
    objective: 'OBJECTIVE',
  })
  expect((await server.getConversation(id)).execution_status).toBe('running')
  await server.post(id, 'interrupt')
  await server.waitForStatus(id, 'paused')
  held.release()
})

mapCase('F11.goal-superseded', 'a user message ends the loop', async () => {
  const { id, held } = await inRound()
  expect(await server.sendMessage(id, 'Something else.')).toBe(200)
  await waitForGoal(id, 'interrupted')
  expect((await userTexts(id)).at(-1)).toContain('Something else.')
  held.release()
})

mapCase('F11.goal-superseded-socket', 'a message on the socket ends the loop', async () => {
  const { id, held } = await inRound()
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  socket.socket.send(JSON.stringify({ role: 'user', content: [{ type: 'text', text: 'Something else.' }] }))
  await waitForGoal(id, 'interrupted')
  held.release()
})

mapCase('F11.goal-interrupt-run', 'an interrupt of a round pauses and ends the loop', async () => {
  const { id, held } = await inRound()
  await server.post(id, 'interrupt')
  await server.waitForStatus(id, 'paused')
  await waitForGoal(id, 'interrupted')
  held.release()
})

mapCase('F11.goal-busy-run', 'goals are refused in a run', async () => {
  const { id, model } = await withJudge(errorReply(400, { error: { message: 'no' } }))
  // A goal that could be resumed.
  await start(id)
  await waitForGoal(id, 'interrupted')
  const former = await goals(id)
  const held = heldReply(finishReply())
  model.replies = [held.reply(model)]
  await server.sendMessage(id, 'Begin.', true)
  await held.arrived
  expect((await start(id)).status).toBe(409)
  expect((await server.post(id, 'goal/resume')).status).toBe(409)
  expect(await goals(id)).toEqual(former)
  held.release()
})

mapCase('F11.goal-resume', 'a resumed goal continues with its own prompt', async () => {
  const { id, held } = await inRound()
  await server.post(id, 'interrupt')
  await waitForGoal(id, 'interrupted')
  held.release()
  expect(
    (
      await waitFor(
        () => server.post(id, 'goal/resume'),
        ({ status }) => status !== 409,
      )
    ).status,
  ).toBe(200)
  expect((await waitForGoal(id, 'complete')).at(-1)).toMatchObject({
    objective: 'OBJECTIVE',
    max_iterations: 3,
  })
  const texts = await userTexts(id)
  expect(texts.filter((text) => text.includes('OBJECTIVE'))).toHaveLength(1)
  expect(texts.at(-1)).toContain('Resuming a goal that was paused or interrupted')
})

mapCase(
  'F11.goal-restart-resume',
  'an interrupted goal is resumed after a restart',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const { id, held } = await inRound(other)
    await other.post(id, 'interrupt')
    await waitForGoal(id, 'interrupted', other)
    held.release()
    await other.restart()
    expect((await goals(id, other)).at(-1)?.status).toBe('interrupted')
    expect((await other.post(id, 'goal/resume')).status).toBe(200)
    await waitForGoal(id, 'complete', other)
  },
  own,
)

mapCase('F11.goal-run-error', 'a failing round ends in error, resumable', async () => {
  const { id, model } = await withJudge(complete)
  model.replies = [errorReply(400, { error: { message: 'no' } })]
  await start(id)
  await server.waitForStatus(id, 'error')
  await waitForGoal(id, 'interrupted')
  model.replies = [complete]
  expect(
    (
      await waitFor(
        () => server.post(id, 'goal/resume'),
        ({ status }) => status !== 409,
      )
    ).status,
  ).toBe(200)
  await waitForGoal(id, 'complete')
})

mapCase('F11.goal-judge-error', 'a failing judge interrupts the goal only', async () => {
  const { id } = await withJudge(errorReply(400, { error: { message: 'no' } }))
  await start(id)
  await waitForGoal(id, 'interrupted')
  expect((await server.getConversation(id)).execution_status).toBe('finished')
})

mapCase(
  'F11.goal-capacity',
  'the loop holds its slot while the judge is asked',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k', env: { SLIPWAY_MAX_CONCURRENT_RUNS: '1' } })
    const { id, model } = await withJudge(complete, other)
    const second = await withJudge(complete, other)
    const held = heldReply(complete)
    model.replyWithoutTools = held.reply(model)
    model.replies = [{ text: 'Round done.' }, held.reply(model), complete]
    await start(id, undefined, other)
    await held.arrived
    expect((await start(id, undefined, other)).status).toBe(409)
    expect(await start(second.id, undefined, other)).toMatchObject({
      status: 429,
      body: { detail: 'Conversation run limit reached. Retry the request later.' },
    })
    expect(await goals(second.id, other)).toEqual([])
    await other.post(id, 'goal/stop')
    held.release()
    const found = await waitFor(
      () => start(second.id, undefined, other),
      ({ status }) => status !== 429,
    )
    expect(found.status).toBe(200)
  },
  own,
)

mapCase(
  'F11.goal-delete-active',
  'a conversation with a goal is removed, and its slot is free',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k', env: { SLIPWAY_MAX_CONCURRENT_RUNS: '1' } })
    const second = await withJudge(complete, other)
    const { id, held } = await inRound(other)
    expect(await other.requestStatus('DELETE', `/api/conversations/${id}`)).toBe(200)
    expect(await other.requestStatus('GET', `/api/conversations/${id}`)).toBe(404)
    const found = await waitFor(
      () => start(second.id, undefined, other),
      ({ status }) => status !== 429,
    )
    expect(found.status).toBe(200)
    held.release()
  },
  own,
)

mapCase('F11.goal-cap-overrun', 'a resumed goal never counts above its cap', async () => {
  const { id, model } = await withJudge(errorReply(400, { error: { message: 'no' } }))
  await start(id, { objective: 'OBJECTIVE', max_iterations: 1 })
  await waitForGoal(id, 'interrupted')
  model.replyWithoutTools = incomplete
  model.replies = [incomplete]
  await waitFor(
    () => server.post(id, 'goal/resume'),
    ({ status }) => status !== 409,
  )
  await sleep(500)
  await waitFor(
    () => goals(id),
    (all) => all.at(-1)?.active === false,
  )
  for (const { iteration } of await goals(id)) expect(iteration).toBeLessThanOrEqual(1)
})

mapCase(
  'F11.goal-restart-active',
  'a goal that was active at a stop is interrupted afterwards',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const { id, held } = await inRound(other)
    await other.stop()
    held.release()
    await other.start()
    expect((await goals(id, other)).at(-1)).toMatchObject({ active: false, status: 'interrupted' })
  },
  { ...own, faultThere: 'running' },
)

endFamily('F11', 25)
