import { expect } from 'vitest'
import type { SocketClient } from '../../support/agent-driver.ts'
import { endFamily, missing, notApplicable } from '../frame.ts'
import {
  finishReply,
  type Json,
  type MapClient,
  OwnMapServer,
  openMapServer,
  unknownId,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer()
const plain = { autotitle: false }
const noSocket = 'no socket below /sockets/session'
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

missing('F07.sync-first', 'the first frame is sync, with the range of the replay', noSocket, async () => {
  const { id } = await server.createConversation(undefined, plain)
  expect((await connect(id))[0]).toEqual({ type: 'sync' })
  const two = await withTwo()
  const last = (await server.getEvents(two)).length - 1
  expect((await connect(two))[0]).toEqual({ type: 'sync', through_seq: last })
  expect((await connect(two, '?after_seq=-1'))[0]).toEqual({ type: 'sync', from_seq: -1, through_seq: last })
})

missing(
  'F07.snapshot-transient',
  'a snapshot without seq follows, which is not stored',
  noSocket,
  async () => {
    const id = await withTwo()
    const frames = await connect(id)
    expect(frames).toMatchObject([{ type: 'sync' }, { type: 'transient', event: { key: 'full_state' } }])
    expect(frames[1]).not.toHaveProperty('seq')
    expect((await server.getEvents(id)).map((event) => event.id)).not.toContain(frames[1]?.event?.id)
  },
)

missing('F07.full-replay', 'every stored event once, in order, with its place', noSocket, async () => {
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

missing('F07.resume-cursor', 'a cursor replays what follows it', noSocket, async () => {
  const id = await withTwo()
  const last = (await server.getEvents(id)).length - 1
  expect(durable(await connect(id, '?after_seq=2')).map(({ seq }) => seq)).toEqual(
    Array.from({ length: last - 2 }, (_, n) => n + 3),
  )
  expect(durable(await connect(id, `?after_seq=${last}`))).toEqual([])
})

missing('F07.live-durable', 'an event that is appended comes with the next place', noSocket, async () => {
  const id = await withTwo()
  const { length } = await server.getEvents(id)
  await using socket = open(id)
  await untilSnapshot(socket)
  await server.sendMessage(id, 'THREE')
  const frames = await waitForFrames<Frame>(socket, (all) => durable(all).length > 0)
  expect(durable(frames)[0]).toMatchObject({ seq: length, event: { kind: 'MessageEvent' } })
})

missing(
  'F07.live-order',
  'live frames come in the order of the log',
  noSocket,
  async () => {
    const id = await withTwo()
    await using socket = open(id)
    await untilSnapshot(socket)
    for (let n = 0; n < 5; n++) await server.sendMessage(id, `message ${n}`)
    const frames = await waitForFrames<Frame>(socket, (all) => durable(all).length >= 10)
    const places = durable(frames).map(({ seq }) => Number(seq))
    expect(places).toEqual([...places].sort((a, b) => a - b))
  },
  { faultThere: 'a message comes after the update that it causes' },
)

missing('F07.replay-then-live', 'replay and live frames are each event once', noSocket, async () => {
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

missing('F07.send-message', 'a message is stored, echoed and run', noSocket, async () => {
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

missing('F07.error-frame', 'what is no message gets an error frame', noSocket, async () => {
  const errors = await errorsOf(await withTwo(), '{"content":"x"}', '[1, 2]')
  expect(errors).toMatchObject([
    { code: 'ValidationError', detail: expect.stringContaining('role') },
    { code: 'ValidationError' },
  ])
})

missing(
  'F07.error-non-json',
  'text that is no JSON and binary frames get error frames',
  noSocket,
  async () => {
    const errors = await errorsOf(await withTwo(), 'no json', Buffer.from([1, 2]))
    expect(errors[0]).toMatchObject({ code: 'JSONDecodeError' })
  },
)

missing('F07.reject-non-user', 'other roles are refused', noSocket, async () => {
  const errors = await errorsOf(await withTwo(), JSON.stringify({ role: 'assistant', content: text('x') }))
  expect(errors).toMatchObject([{ detail: 'Only user messages are allowed to be sent to the agent.' }])
})

missing('F07.auth-frame-ignored', 'a later key frame is ignored', noSocket, async () => {
  const id = await withTwo()
  await using socket = open(id)
  await untilSnapshot(socket)
  socket.socket.send(JSON.stringify({ type: 'auth', session_api_key: 'any' }))
  await server.sendMessage(id, 'THREE')
  const frames = await waitForFrames<Frame>(socket, (all) => durable(all).length > 0)
  expect(frames.filter(({ type }) => type === 'error')).toEqual([])
})

missing('F07.auth', 'the key in its three places; others close or refuse', noSocket, async () => {
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

missing('F07.unknown-conversation', 'an unknown conversation closes with 4004', noSocket, async () => {
  await using socket = open(unknownId)
  expect(await socket.closed).toEqual({ code: 4004, reason: 'Conversation not found' })
})

missing('F07.bad-handshake', 'a malformed id or cursor refuses the upgrade', noSocket, async () => {
  const id = await withTwo()
  expect(await server.upgradeStatus('/sockets/session/no-uuid', server.headers)).toBe(403)
  expect(await server.upgradeStatus(`/sockets/session/${id}?after_seq=x`, server.headers)).toBe(403)
})

missing(
  'F07.restart-resume',
  'places outlive a restart',
  noSocket,
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

missing(
  'F07.progress-frames',
  'a streamed answer is started, told in pieces and retired',
  noSocket,
  async () => {
    const { frames } = await streamed()
    const started = frames.find(({ type }) => type === 'item_started')
    const pieces = frames.filter(({ type, item_id }) => type === 'delta' && item_id === started?.item_id)
    expect(pieces.map(({ order }) => order)).toEqual(pieces.map((_, n) => n))
    expect(pieces.map(({ content }) => content).join('')).toBe('A streamed answer.')
    expect(durable(frames).filter(({ event }) => event?.id === started?.item_id)).toHaveLength(1)
  },
)

missing('F07.progress-not-replayed', 'progress is never replayed', noSocket, async () => {
  const { id } = await streamed()
  const frames = await connect(id, '?after_seq=-1')
  expect([...new Set(frames.map(({ type }) => type))].sort()).toEqual(['durable', 'sync', 'transient'])
})

missing('F07.item-aborted', 'an interrupt aborts a streamed answer once', noSocket)
missing('F07.frame-too-large', 'an event over 4 MiB closes with 1013', noSocket)
missing('F07.slow-consumer', 'a client that stops to read is closed with 1013', noSocket)

missing('F07.subscriber-limit', 'at most 50 subscribers of a conversation', noSocket, async () => {
  const id = await withTwo()
  const sockets = Array.from({ length: 52 }, () => open(id))
  try {
    const first = await Promise.race(sockets.map(({ closed }) => closed))
    expect(first).toEqual({ code: 1013, reason: 'Too many connections for this conversation' })
  } finally {
    for (const socket of sockets) await socket[Symbol.asyncDispose]()
  }
})

missing(
  'F07.deleted-close',
  'a removed conversation closes its sockets',
  noSocket,
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
