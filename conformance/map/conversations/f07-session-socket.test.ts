import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { FakeClock } from '../../../packages/shared/src/time/testing/fake-clock.ts'
import type { SocketClient } from '../../support/agent-driver.ts'
import { differs, endFamily, mapCase, notApplicable } from '../frame.ts'
import {
  finishReply,
  type Json,
  type MapClient,
  OwnMapServer,
  openMapServer,
  unknownId,
  waitFor,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer()
const plain = { autotitle: false }
const text = (value: string) => [{ type: 'text', text: value }]

interface Frame {
  readonly type: string
  readonly seq?: number
  readonly event?: Json
  readonly [member: string]: unknown
}

async function withTwo(on: MapClient = server): Promise<string> {
  const { id } = await on.createConversation(undefined, plain)
  await on.sendMessage(id, 'ONE')
  await on.sendMessage(id, 'TWO')
  return id
}

const open = (id: string, query = '', on: MapClient = server) =>
  on.openSocket(`/sockets/session/${id}${query}`)

/** The frames up to and with the snapshot. */
const untilSnapshot = async (socket: SocketClient) =>
  await waitForFrames<Frame>(socket, (frames) => frames.some(({ type }) => type === 'transient'))

const durable = (frames: readonly Frame[]) => frames.filter(({ type }) => type === 'durable')

/** The frames of a connection up to its snapshot. */
async function connect(id: string, query = '', on: MapClient = server): Promise<Frame[]> {
  await using socket = open(id, query, on)
  return await untilSnapshot(socket)
}

mapCase('F07.sync-first', 'the first frame is sync, with the range of the replay', async () => {
  const { id } = await server.createConversation(undefined, plain)
  expect((await connect(id))[0]).toEqual({ type: 'sync' })
  const two = await withTwo()
  const last = (await server.getEvents(two)).length - 1
  expect((await connect(two))[0]).toEqual({ type: 'sync', through_seq: last })
  expect((await connect(two, '?after_seq=-1'))[0]).toEqual({ type: 'sync', from_seq: -1, through_seq: last })
})

mapCase('F07.snapshot-transient', 'a snapshot without seq follows, which is not stored', async () => {
  const id = await withTwo()
  const frames = await connect(id)
  expect(frames).toMatchObject([{ type: 'sync' }, { type: 'transient', event: { key: 'full_state' } }])
  expect(frames[1]).not.toHaveProperty('seq')
  expect((await server.getEvents(id)).map((event) => event.id)).not.toContain(frames[1]?.event?.id)
})

mapCase('F07.full-replay', 'every stored event once, in order, with its place', async () => {
  const id = await withTwo()
  const stored = await server.getEvents(id)
  for (const from of [-1, -7]) {
    const frames = await connect(id, `?after_seq=${from}`)
    expect(frames[0]).toMatchObject({ from_seq: from })
    expect(durable(frames)).toEqual(stored.map((event, seq) => ({ type: 'durable', seq, event })))
  }
})

notApplicable(
  'F07.seq-on-disk',
  'the place of an event is in the name of its file',
  'events are rows of a database here; that places are those of the log is shown by F07.full-replay',
)

mapCase('F07.resume-cursor', 'a cursor replays what follows it', async () => {
  const id = await withTwo()
  const last = (await server.getEvents(id)).length - 1
  expect(durable(await connect(id, '?after_seq=2')).map(({ seq }) => seq)).toEqual(
    Array.from({ length: last - 2 }, (_, n) => n + 3),
  )
  expect(durable(await connect(id, `?after_seq=${last}`))).toEqual([])
})

mapCase('F07.live-durable', 'an event that is appended comes with the next place', async () => {
  const id = await withTwo()
  const { length } = await server.getEvents(id)
  await using socket = open(id)
  await untilSnapshot(socket)
  await server.sendMessage(id, 'THREE')
  const frames = await waitForFrames<Frame>(socket, (all) => durable(all).length > 0)
  expect(durable(frames)[0]).toMatchObject({ seq: length, event: { kind: 'MessageEvent' } })
})

mapCase('F07.live-order', 'live frames come in the order of the log', async () => {
  const id = await withTwo()
  await using socket = open(id)
  await untilSnapshot(socket)
  for (let n = 0; n < 5; n++) await server.sendMessage(id, `message ${n}`)
  const frames = await waitForFrames<Frame>(socket, (all) => durable(all).length >= 10)
  const places = durable(frames).map(({ seq }) => Number(seq))
  expect(places).toEqual([...places].sort((a, b) => a - b))
})

mapCase('F07.replay-then-live', 'replay and live frames are each event once', async () => {
  const id = await withTwo()
  const sending = (async () => {
    for (let n = 0; n < 20; n++) await server.sendMessage(id, `message ${n}`)
  })()
  await using socket = open(id, '?after_seq=-1')
  await sending
  const { length } = await server.getEvents(id)
  const frames = await waitForFrames<Frame>(socket, (all) => durable(all).length >= length)
  expect(
    durable(frames)
      .map(({ seq }) => Number(seq))
      .sort((a, b) => a - b),
  ).toEqual(Array.from({ length }, (_, seq) => seq))
})

mapCase('F07.send-message', 'a message is stored, echoed and run', async () => {
  const { id } = await server.createConversation(await server.openModel(finishReply()), plain)
  await using socket = open(id)
  await untilSnapshot(socket)
  socket.socket.send(JSON.stringify({ role: 'user', content: text('Begin.') }))
  await waitForFrames<Frame>(socket, (all) => durable(all).some(({ event }) => event?.value === 'finished'))
})

/** Sends frames and returns the errors that answer them. */
async function errorsOf(id: string, ...frames: readonly (string | Buffer)[]): Promise<Frame[]> {
  await using socket = open(id)
  await untilSnapshot(socket)
  const before = await server.getEvents(id)
  for (const frame of frames) socket.socket.send(frame)
  const all = await waitForFrames<Frame>(
    socket,
    (seen) => seen.filter(({ type }) => type === 'error').length === frames.length,
  )
  expect(await server.getEvents(id)).toEqual(before)
  expect(socket.socket.readyState).toBe(socket.socket.OPEN)
  return all.filter(({ type }) => type === 'error')
}

mapCase('F07.error-frame', 'what is no message gets an error frame', async () => {
  const errors = await errorsOf(await withTwo(), '{"content":"x"}', '[1, 2]')
  expect(errors).toMatchObject([
    { code: 'ValidationError', detail: expect.stringContaining('role') },
    { code: 'ValidationError' },
  ])
})

mapCase('F07.error-non-json', 'text that is no JSON and binary frames get error frames', async () => {
  const errors = await errorsOf(await withTwo(), 'no json', Buffer.from([1, 2]))
  expect(errors[0]).toMatchObject({ code: 'JSONDecodeError' })
})

mapCase('F07.reject-non-user', 'other roles are refused', async () => {
  const errors = await errorsOf(await withTwo(), JSON.stringify({ role: 'assistant', content: text('x') }))
  expect(errors).toMatchObject([{ detail: 'Only user messages are allowed to be sent to the agent.' }])
})

mapCase('F07.auth-frame-ignored', 'a later key frame is ignored', async () => {
  const id = await withTwo()
  await using socket = open(id)
  await untilSnapshot(socket)
  socket.socket.send(JSON.stringify({ type: 'auth', session_api_key: 'any' }))
  await server.sendMessage(id, 'THREE')
  const frames = await waitForFrames<Frame>(socket, (all) => durable(all).length > 0)
  expect(frames.filter(({ type }) => type === 'error')).toEqual([])
})

mapCase('F07.auth', 'the key in its three places; others close or refuse', async () => {
  const id = await withTwo()
  const path = `/sockets/session/${id}`
  await using first = server.openSocket(path, {})
  first.socket.on('open', () =>
    first.socket.send(JSON.stringify({ type: 'auth', session_api_key: server.key })),
  )
  await untilSnapshot(first)
  for (const frame of [
    { type: 'auth', session_api_key: 'wrong' },
    { role: 'user', content: text('x') },
  ]) {
    await using socket = server.openSocket(path, {})
    socket.socket.on('open', () => socket.socket.send(JSON.stringify(frame)))
    expect(await socket.closed).toMatchObject({ code: 4001 })
  }
  await using query = server.openSocket(`${path}?session_api_key=${server.key}`, {})
  await untilSnapshot(query)
  expect(await server.upgradeStatus(`${path}?session_api_key=wrong`)).toBe(403)
})

mapCase('F07.unknown-conversation', 'an unknown conversation closes with 4004', async () => {
  await using socket = open(unknownId)
  expect(await socket.closed).toEqual({ code: 4004, reason: 'Conversation not found' })
})

mapCase('F07.bad-handshake', 'a malformed id or cursor refuses the upgrade', async () => {
  const id = await withTwo()
  expect(await server.upgradeStatus('/sockets/session/no-uuid', server.headers)).toBe(403)
  expect(await server.upgradeStatus(`/sockets/session/${id}?after_seq=x`, server.headers)).toBe(403)
})

mapCase(
  'F07.restart-resume',
  'places outlive a restart',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k' })
    const id = await withTwo(own)
    const before = durable(await connect(id, '?after_seq=1', own))
    await own.restart()
    expect(durable(await connect(id, '?after_seq=1', own))).toEqual(before)
  },
  { hasOwnServer: true },
)

/** The frames of a streamed run. */
async function streamed(): Promise<{ id: string; frames: Frame[] }> {
  const model = await server.openModel({ text: 'A streamed answer.' })
  const agent = { kind: 'Agent', llm: model.llm('chat', { stream: true }), tools: [] }
  const { id } = await server.createConversation(model, { ...plain, agent })
  await using socket = open(id)
  await untilSnapshot(socket)
  await server.sendMessage(id, 'Begin.', true)
  const frames = await waitForFrames<Frame>(socket, (all) =>
    durable(all).some(({ event }) => event?.value === 'finished'),
  )
  return { id, frames }
}

mapCase('F07.progress-frames', 'a streamed answer is started, told in pieces and retired', async () => {
  const { frames } = await streamed()
  const started = frames.find(({ type }) => type === 'item_started')
  const pieces = frames.filter(({ type, item_id }) => type === 'delta' && item_id === started?.item_id)
  expect(pieces.map(({ order }) => order)).toEqual(pieces.map((_, n) => n))
  expect(pieces.map(({ content }) => content).join('')).toBe('A streamed answer.')
  expect(durable(frames).filter(({ event }) => event?.id === started?.item_id)).toHaveLength(1)
})

mapCase('F07.progress-not-replayed', 'progress is never replayed', async () => {
  const { id } = await streamed()
  const frames = await connect(id, '?after_seq=-1')
  expect([...new Set(frames.map(({ type }) => type))].sort()).toEqual(['durable', 'sync', 'transient'])
})

mapCase('F07.item-aborted', 'an interrupt aborts a streamed answer once', async () => {
  const model = await server.openModel()
  const piece = { choices: [{ index: 0, delta: { content: 'A piece of ' } }] }
  model.replies = [
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify({ id: 'chatcmpl-1', created: 1, model: 'm', ...piece })}\n\n`)
    },
  ]
  const agent = { kind: 'Agent', llm: model.llm('chat', { stream: true }), tools: [] }
  const { id } = await server.createConversation(model, { ...plain, agent })
  await using socket = open(id)
  await untilSnapshot(socket)
  await server.sendMessage(id, 'Begin.', true)
  const [delta] = (
    await waitForFrames<Frame>(socket, (all) => all.some(({ type }) => type === 'delta'))
  ).filter(({ type }) => type === 'delta')
  expect((await server.post(id, 'interrupt')).status).toBe(200)
  const isAbort = ({ type }: Frame) => type === 'item_aborted'
  await waitForFrames<Frame>(socket, (all) => all.some(isAbort))
  await server.sendMessage(id, 'AFTER')
  const frames = await waitForFrames<Frame>(socket, (all) => JSON.stringify(all).includes('AFTER'))
  const { item_id, attempt } = { item_id: '', attempt: 0, ...delta }
  const aborted = { type: 'item_aborted', item_id, attempt, reason: 'cancelled' }
  expect(frames.filter(isAbort)).toEqual([aborted])
  expect(frames.slice(frames.findIndex(isAbort) + 1).filter((frame) => frame.item_id === item_id)).toEqual([])
  expect((await server.getEvents(id)).map((event) => event.id)).not.toContain(item_id)
  const types = (await connect(id, '?after_seq=-1')).map(({ type }) => type)
  expect([...new Set(types)].sort()).toEqual(['durable', 'sync', 'transient'])
})

mapCase('F07.frame-too-large', 'an event over 4 MiB closes with 1013', async () => {
  const id = await withTwo()
  const { length } = await server.getEvents(id)
  await server.sendMessage(id, 'x'.repeat(5 * 1024 * 1024))
  await server.sendMessage(id, 'LAST')
  const after = await server.getEvents(id)
  await using socket = open(id, '?after_seq=-1')
  expect(await socket.closed).toEqual({ code: 1013, reason: 'frame_too_large' })
  const places = durable(socket.frames.map((frame) => JSON.parse(frame))).map(({ seq }) => seq)
  expect(places).toEqual(Array.from({ length }, (_, seq) => seq))
  const rest = durable(await connect(id, `?after_seq=${length}`))
  expect(rest.map(({ event }) => event)).toEqual(after.slice(length + 1))
})

mapCase('F07.slow-consumer', 'a client that stops to read is closed with 1013', async () => {
  const clock = new FakeClock(Date.now())
  await using own = await OwnMapServer.open({ clock })
  const id = await withTwo(own)
  const { length } = await own.getEvents(id)
  await using stalled = open(id, '', own)
  await using reading = open(id, '', own)
  await untilSnapshot(stalled)
  await untilSnapshot(reading)
  stalled.socket.pause()
  // With the buffers of the kernel (at most 10 MB) the fifth to the seventh is one too many.
  const count = 8
  // Text that does not become shorter on a socket that compresses.
  const text = () => randomBytes(3 * 768 * 1024).toString('base64')
  await Promise.all(Array.from({ length: count }, () => own.sendMessage(id, text())))
  await waitForFrames<Frame>(reading, (all) =>
    all.some(({ seq, event }) => Number(seq) >= length + 2 * count - 2 && event?.kind === 'MessageEvent'),
  )
  await clock.advance(2_000)
  stalled.socket.resume()
  expect(await stalled.closed).toEqual({ code: 1013, reason: 'slow_consumer' })
})

const limitReason = 'Too many connections for this conversation'

differs(
  'F07.subscriber-limit',
  'at most 50 subscribers of a conversation',
  'sockets of one conversation',
  async () => {
    const env = { SLIPWAY_MAX_SOCKETS_PER_CONVERSATION: '2' }
    await using own = await OwnMapServer.open({ key: 'k', env })
    const id = await withTwo(own)
    await using first = open(id, '', own)
    await untilSnapshot(first)
    {
      await using second = own.openSocket(`/sockets/events/${id}`)
      await waitForFrames(second, (frames) => frames.length > 0)
      await using third = open(id, '', own)
      expect(await third.closed).toEqual({ code: 1013, reason: limitReason })
    }
    await waitFor(
      async () => {
        await using next = open(id, '', own)
        return await Promise.race([next.closed, untilSnapshot(next).catch(() => next.closed)])
      },
      (outcome) => Array.isArray(outcome),
    )
  },
  async () => {
    const id = await withTwo()
    const sockets = Array.from({ length: 52 }, () => open(id))
    try {
      const first = await Promise.race(sockets.map(({ closed }) => closed))
      expect(first).toEqual({ code: 1013, reason: limitReason })
    } finally {
      for (const socket of sockets) await socket[Symbol.asyncDispose]()
    }
  },
)

mapCase(
  'F07.deleted-close',
  'a removed conversation closes its sockets',
  async () => {
    const id = await withTwo()
    await using socket = open(id)
    await untilSnapshot(socket)
    await server.requestOrThrow('DELETE', `/api/conversations/${id}`)
    await socket.closed
  },
  { faultThere: 'they stay open' },
)

endFamily('F07', 24)
