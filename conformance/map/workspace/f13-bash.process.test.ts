import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { differs, endFamily, mapCase } from '../frame.ts'
import {
  type Json,
  type MapClient,
  OwnMapServer,
  openMapServer,
  unknownId,
  waitFor,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer({}, { isProcess: true })
const own = { hasOwnServer: true }
const hex = (id: unknown) => String(id).replaceAll('-', '')

interface Output {
  readonly id: string
  readonly kind: string
  readonly command_id: string
  readonly order: number
  readonly exit_code: number | null
  readonly stdout: string | null
  readonly stderr: string | null
  readonly timestamp: string
}

async function execute(command: string, more: object = {}, on: MapClient = server): Promise<Output> {
  const body = { command, timeout: 40, ...more }
  return await on.requestOrThrow<Output>('POST', '/api/bash/execute_bash_command', { body })
}

const start = async (command: string, more: object = {}, on: MapClient = server) =>
  await on.requestOrThrow<{ id: string }>('POST', '/api/bash/start_bash_command', {
    body: { command, ...more },
  })

async function search(query: Record<string, string>, on: MapClient = server): Promise<Output[]> {
  return (await on.requestOrThrow<{ items: Output[] }>('GET', '/api/bash/bash_events/search', { query }))
    .items
}

/** The last output of a command, when it has ended. */
async function waitForExit(id: string, on: MapClient = server): Promise<Output | undefined> {
  const outputs = await waitFor(
    () => search({ kind__eq: 'BashOutput', command_id__eq: hex(id), limit: '100' }, on),
    (all) => all.some(({ exit_code }) => exit_code !== null && exit_code !== undefined),
  )
  return outputs.find(({ exit_code }) => exit_code !== null && exit_code !== undefined)
}

mapCase('F13.auth', 'the routes and the socket need a key', async () => {
  for (const [method, path] of [
    ['POST', '/api/bash/execute_bash_command'],
    ['POST', '/api/bash/start_bash_command'],
    ['GET', '/api/bash/bash_events/search'],
    ['GET', `/api/bash/bash_events/${hex(unknownId)}`],
    ['POST', `/api/bash/bash_commands/${hex(unknownId)}/stop`],
    ['DELETE', '/api/bash/bash_events'],
  ] as const)
    expect(await server.requestStatus(method, path, { isAnonymous: true }), path).toBe(401)
  await using socket = server.openSocket('/sockets/bash-events', {})
  socket.socket.on('open', () =>
    socket.socket.send(JSON.stringify({ type: 'auth', session_api_key: 'wrong' })),
  )
  expect(await socket.closed).toMatchObject({ code: 4001 })
})

mapCase('F13.execute-sync', 'the answer is the last output, with both streams', async () => {
  const output = await execute('echo OUT; echo ERR >&2; exit 3')
  expect(output).toMatchObject({
    kind: 'BashOutput',
    exit_code: 3,
    order: 0,
    stdout: 'OUT\n',
    stderr: 'ERR\n',
  })
  const command = await server.requestOrThrow('GET', `/api/bash/bash_events/${hex(output.command_id)}`)
  expect(command).toMatchObject({ kind: 'BashCommand', command: 'echo OUT; echo ERR >&2; exit 3', cwd: null })
  for (const body of [{ cwd: '/tmp' }, { command: 'true', timeout: 'soon' }])
    expect(await server.requestStatus('POST', '/api/bash/execute_bash_command', { body })).toBe(422)
})

mapCase('F13.global-cwd', 'any directory; one that is missing is an output with -1', async () => {
  expect((await execute('pwd', { cwd: '/tmp' })).stdout).toBe('/tmp\n')
  expect((await execute('pwd')).exit_code).toBe(0)
  const output = await execute('pwd', { cwd: '/nonexistent/map' })
  expect(output).toMatchObject({
    exit_code: -1,
    stderr: expect.stringContaining('Error executing command'),
  })
  expect(output.stdout ?? null).toBe(null)
})

mapCase('F13.env-sanitized', 'no key of the server, and a name of the agent', async () => {
  const { stdout } = await execute('env')
  expect(stdout).not.toMatch(/SESSION_API_KEY|SECRET_KEY/)
  expect(stdout).toContain('AI_AGENT=openhands')
})

differs(
  'F13.env-config-credentials',
  'other credentials of the server reach commands',
  'environment of commands',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k', env: { OH_TELEMETRY_HTTP_TOKEN: 'sentinel' } })
    expect((await execute('env', {}, other)).stdout).not.toContain('sentinel')
  },
)

mapCase('F13.start-async', 'the command is answered before it ends', async () => {
  const command = await start('sleep 0.5; echo LATER; exit 4')
  expect(command).toMatchObject({ kind: 'BashCommand' })
  expect(await waitForExit(command.id)).toMatchObject({ exit_code: 4 })
})

mapCase('F13.ws-live', 'the socket sees commands of REST, and replays', async () => {
  await using socket = server.openSocket('/sockets/bash-events')
  await new Promise((done) => socket.socket.on('open', done))
  await waitFor(
    async () => {
      await execute('echo LIVE')
      return socket.frames.length
    },
    (count) => count > 0,
  )
  await waitForFrames(socket, (frames) => frames.some(({ kind }) => kind === 'BashOutput'))
  await using replay = server.openSocket('/sockets/bash-events?resend_mode=all')
  await waitForFrames(replay, (frames) => frames.some(({ kind }) => kind === 'BashOutput'))
})

mapCase('F13.ws-command', 'a frame runs a command; another gets an error', async () => {
  await using socket = server.openSocket('/sockets/bash-events')
  socket.socket.on('open', () => {
    socket.socket.send('{"nothing":1}')
    socket.socket.send(JSON.stringify({ command: 'echo FRAME' }))
  })
  const frames = await waitForFrames(
    socket,
    (all) => all.some(({ stdout }) => stdout === 'FRAME\n') && all.some(({ kind }) => kind === 'BashError'),
  )
  expect(frames.find(({ kind }) => kind === 'BashError')?.code).toBe('ValidationError')
})

mapCase('F13.ws-resend-all', 'the former query member replays too; without one nothing is', async () => {
  await execute('echo BEFORE')
  await using replay = server.openSocket('/sockets/bash-events?resend_all=true')
  await waitForFrames(replay, (frames) => frames.some(({ stdout }) => stdout === 'BEFORE\n'))
  await using live = server.openSocket('/sockets/bash-events')
  await new Promise((done) => live.socket.on('open', done))
  live.socket.send(JSON.stringify({ command: 'echo AFTER' }))
  const frames = await waitForFrames(live, (all) => all.some(({ stdout }) => stdout === 'AFTER\n'))
  expect(frames.filter(({ stdout }) => stdout === 'BEFORE\n')).toEqual([])
})

mapCase(
  'F13.ws-subscriber-cap',
  'the 51st socket is closed with 1013',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const sockets = Array.from({ length: 50 }, () => other.openSocket('/sockets/bash-events'))
    try {
      await Promise.all(sockets.map(({ socket }) => new Promise((done) => socket.on('open', done))))
      await using last = other.openSocket('/sockets/bash-events')
      const late = sleep(10_000, 'open', { ref: false })
      expect(await Promise.race([last.closed, late])).toEqual({
        code: 1013,
        reason: 'Too many bash event connections',
      })
    } finally {
      for (const socket of sockets) await socket[Symbol.asyncDispose]()
    }
  },
  own,
)

mapCase('F13.get-events', 'one event by its id, several in the order of ids', async () => {
  const output = await execute('echo ONE')
  expect(await server.requestOrThrow('GET', `/api/bash/bash_events/${hex(output.id)}`)).toMatchObject({
    stdout: 'ONE\n',
  })
  expect(await server.requestStatus('GET', `/api/bash/bash_events/${hex(unknownId)}`)).toBe(404)
  const ids = [hex(output.id), hex(unknownId), hex(output.command_id)]
  const { status, body } = await server.getWithBody('/api/bash/bash_events/', ids)
  expect(status).toBe(200)
  expect((body as (Json | null)[]).map((event) => event?.kind ?? null)).toEqual([
    'BashOutput',
    null,
    'BashCommand',
  ])
  expect(await server.requestStatus('GET', '/api/bash/bash_events/')).toBe(422)
})

mapCase('F13.search', 'filters, order, pages and errors', async () => {
  const { command_id } = await execute('echo FOUND')
  expect(await search({ command_id__eq: hex(command_id) })).toMatchObject([
    { kind: 'BashOutput', stdout: 'FOUND\n' },
  ])
  const commands = await search({ kind__eq: 'BashCommand', limit: '100' })
  expect(commands.every(({ kind }) => kind === 'BashCommand')).toBe(true)
  const newest = await search({ sort_order: 'TIMESTAMP_DESC', limit: '2' })
  expect(newest[0]?.command_id).toBe(command_id)
  for (const query of [
    { kind__eq: 'BashError' },
    { sort_order: 'unknown' },
    { command_id__eq: 'no-uuid' },
    { limit: '0' },
  ] as Record<string, string>[])
    expect(
      await server.requestStatus('GET', '/api/bash/bash_events/search', { query }),
      JSON.stringify(query),
    ).toBe(422)
})

mapCase('F13.timestamp-offset', 'a time with an offset is the same instant', async () => {
  const { timestamp } = await execute('echo NOW')
  const instant = new Date(/Z|\+/.test(timestamp) ? timestamp : `${timestamp.slice(0, 23)}Z`)
  const before = new Date(instant.getTime() - 1)
  const shifted = `${new Date(before.getTime() + 7_200_000).toISOString().slice(0, 23)}+02:00`
  const ids = async (from: string) =>
    (await search({ timestamp__gte: from, limit: '100' })).map(({ id }) => id)
  expect(await ids(shifted)).toEqual(await ids(before.toISOString()))
})

const large = 'head -c 2500000 /dev/zero | tr "\\0" x'

mapCase('F13.output-chunks', 'output above 1 MiB comes in ordered pieces', async () => {
  const { id } = await start(large)
  await waitForExit(id)
  const outputs = await search({ kind__eq: 'BashOutput', command_id__eq: hex(id), limit: '100' })
  const ordered = outputs.sort((a, b) => a.order - b.order)
  expect(ordered.map(({ order }) => order)).toEqual(ordered.map((_, n) => n))
  expect(ordered.map(({ stdout }) => stdout ?? '').join('')).toHaveLength(2_500_000)
  expect(ordered[0]?.stdout).toHaveLength(1_048_576)
  const later = await search({
    kind__eq: 'BashOutput',
    command_id__eq: hex(id),
    order__gt: '0',
    limit: '100',
  })
  expect(later).toHaveLength(ordered.length - 1)
})

mapCase('F13.order-gt-paging', 'a page of pieces after one that was seen', async () => {
  const { id } = await start(large)
  await waitForExit(id)
  const query = { kind__eq: 'BashOutput', command_id__eq: hex(id), order__gt: '0', limit: '1' }
  expect(await search(query)).toMatchObject([{ order: 1 }])
})

mapCase('F13.execute-large-output', 'the answer has the whole output', async () => {
  expect((await execute(large)).stdout).toHaveLength(2_500_000)
})

mapCase('F13.timeout', 'a command that takes too long is killed with its group', async () => {
  const mark = `map-${crypto.randomUUID()}`
  const output = await execute(`sh -c 'sleep 55; : ${mark}' & wait`, { timeout: 1 })
  expect(output.exit_code).toBe(-1)
  await waitFor(
    async () => (await execute(`ps -eo args | grep '[s]leep 55; : ${mark}' | wc -l`)).stdout?.trim(),
    (count) => count === '0',
  )
})

const stop = (id: string, on: MapClient = server) => on.request('POST', `/api/bash/bash_commands/${id}/stop`)

mapCase('F13.stop', 'a stop ends that command only', async () => {
  const first = await start('sleep 50')
  const second = await start('sleep 1; echo GOES ON')
  expect(await stop(first.id)).toMatchObject({ status: 200, body: { success: true } })
  expect(await waitForExit(first.id)).toMatchObject({ exit_code: -15 })
  expect(await waitForExit(second.id)).toMatchObject({ exit_code: 0 })
})

mapCase('F13.stop-idempotent', 'an ended command, an unknown one and a malformed id', async () => {
  const { command_id } = await execute('true')
  expect((await stop(command_id)).status).toBe(200)
  expect((await stop(hex(command_id))).status).toBe(200)
  expect((await stop(unknownId)).status).toBe(404)
  expect((await stop('no-uuid')).status).toBe(422)
})

const scoped = async (id: string, route: string, body?: object) =>
  await server.request<Json>(body === undefined ? 'GET' : 'POST', `/api/conversations/${id}/bash/${route}`, {
    body,
  })

mapCase('F13.scoped-cwd', 'commands of a conversation run in its workspace', async () => {
  const { id } = await server.createConversation()
  const found = await scoped(id, 'execute_bash_command', { command: 'pwd' })
  expect(found).toMatchObject({ status: 200, body: { stdout: `${server.directory}\n` } })
  for (const cwd of ['/', `${server.directory}/..`, 'relative'])
    expect(await scoped(id, 'execute_bash_command', { command: 'pwd', cwd })).toMatchObject({
      status: 422,
      body: { detail: 'cwd must be inside the conversation workspace' },
    })
})

mapCase('F13.scoped-routes', 'a conversation has its own history', async () => {
  const { id } = await server.createConversation()
  const { body } = await scoped(id, 'execute_bash_command', { command: 'echo SCOPED' })
  expect((await scoped(id, `bash_events/${hex(body.id)}`)).body).toMatchObject({ stdout: 'SCOPED\n' })
  expect((await scoped(id, 'bash_events/search')).body.items).toHaveLength(2)
})

mapCase('F13.scoped-isolation', 'that history is seen nowhere else', async () => {
  const { id } = await server.createConversation()
  const { body } = await scoped(id, 'execute_bash_command', { command: 'echo SCOPED' })
  expect(body.command_id).toEqual(expect.any(String))
  expect(await search({ command_id__eq: hex(body.command_id) })).toEqual([])
  expect((await stop(String(body.command_id))).status).toBe(404)
})

mapCase('F13.scoped-unknown', 'unknown conversations are 404', async () => {
  expect(await scoped(unknownId, 'execute_bash_command', { command: 'true' })).toMatchObject({
    status: 404,
    body: { detail: `Conversation not found: ${unknownId}` },
  })
})

mapCase(
  'F13.persist-restart',
  'both histories outlive a restart',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const { id } = await execute('echo KEPT', {}, other)
    const conversation = await other.createConversation()
    const path = `/api/conversations/${conversation.id}/bash`
    await other.requestOrThrow('POST', `${path}/execute_bash_command`, { body: { command: 'true' } })
    await other.restart()
    expect(await other.requestStatus('GET', `/api/bash/bash_events/${hex(id)}`)).toBe(200)
    expect(
      (await other.requestOrThrow<{ items: [] }>('GET', `${path}/bash_events/search`)).items,
    ).toHaveLength(2)
  },
  own,
)

mapCase(
  'F13.clear',
  'a removal counts what it removed',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const { command_id } = await execute('true', {}, other)
    expect(await other.requestOrThrow('DELETE', '/api/bash/bash_events')).toEqual({ cleared_count: 2 })
    expect(await search({}, other)).toEqual([])
    expect((await stop(command_id, other)).status).toBe(404)
  },
  own,
)

mapCase(
  'F13.retention',
  'old events are gone after a start',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k' })
    const { id } = await execute('echo OLD', {}, other)
    const ended = performance.now()
    await waitFor(
      async () => performance.now() - ended,
      (age) => age > 1_000,
    )
    await other.restart('SIGTERM', { SLIPWAY_BASH_RETENTION_SECONDS: '1' })
    await waitFor(
      () => other.requestStatus('GET', `/api/bash/bash_events/${hex(id)}`),
      (status) => status === 404,
    )
  },
  own,
)

mapCase(
  'F13.retention-rolling',
  'old events are removed while the server runs',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k', env: { SLIPWAY_BASH_RETENTION_SECONDS: '2' } })
    const { id } = await execute('echo OLD', {}, other)
    const status = async () => {
      await execute('echo NEW', {}, other)
      return await other.requestStatus('GET', `/api/bash/bash_events/${hex(id)}`)
    }
    await waitFor(status, (found) => found === 404)
    expect(JSON.stringify(await search({}, other))).toContain('echo NEW')
  },
  own,
)

mapCase('F13.scoped-bad-id', 'a malformed conversation id is 422', async () => {
  expect((await scoped('no-uuid', 'execute_bash_command', { command: 'true' })).status).toBe(422)
})

mapCase(
  'F13.scoped-idle-eviction',
  'a command continues while its conversation is not used',
  async () => {
    await using other = await OwnMapServer.open({ key: 'k', env: { SLIPWAY_CONVERSATION_IDLE_SECONDS: '1' } })
    const { id } = await other.createConversation()
    const path = `/api/conversations/${id}/bash`
    const body = { command: 'sleep 4; echo DONE' }
    const command = await other.requestOrThrow<Json>('POST', `${path}/start_bash_command`, { body })
    const query = { kind__eq: 'BashOutput', command_id__eq: hex(command.id) }
    const outputs = await waitFor(
      () => other.requestOrThrow<{ items: Output[] }>('GET', `${path}/bash_events/search`, { query }),
      ({ items }) => items.some(({ exit_code }) => exit_code !== null),
    )
    expect(outputs.items.at(-1)).toMatchObject({ exit_code: 0, stdout: 'DONE\n' })
  },
  own,
)

endFamily('F13', 29)
