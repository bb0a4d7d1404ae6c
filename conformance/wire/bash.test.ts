import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { openWireServer, unknownId, wireCase } from './wire-server.ts'

const wire = openWireServer()

interface BashEvent {
  readonly id: string
  readonly kind: string
  readonly command_id?: string
  readonly order?: number
  readonly exit_code?: number | null
  readonly stdout?: string | null
  readonly stderr?: string | null
}
interface BashPage {
  readonly items: readonly BashEvent[]
  readonly next_page_id: string | null
}

const startCommand = (body: object) =>
  wire.requestOrThrow<BashEvent>('POST', '/api/bash/start_bash_command', { body })
const searchEvents = (query: Record<string, string>) =>
  wire.requestOrThrow<BashPage>('GET', '/api/bash/bash_events/search', { query })

/** Waits like the clients: polls by order. */
async function waitForOutput(id: string): Promise<BashEvent[]> {
  const found: BashEvent[] = []
  for (;;) {
    const order = found.at(-1)?.order
    const more = order === undefined ? {} : { order__gt: String(order) }
    const { items } = await searchEvents({
      kind__eq: 'BashOutput',
      command_id__eq: id,
      limit: '100',
      ...more,
    })
    found.push(...items)
    if (found.at(-1)?.exit_code != null) return found
    await sleep(50)
  }
}

wireCase(
  'POST /api/bash/start_bash_command',
  'returns at once, and its output is numbered by order',
  async () => {
    const command = await startCommand({
      command: 'echo out; echo err >&2; exit 7',
      cwd: wire.directory,
      timeout: 20,
    })
    expect(command).toMatchObject({
      id: expect.any(String),
      kind: 'BashCommand',
      command: 'echo out; echo err >&2; exit 7',
      cwd: wire.directory,
      timeout: 20,
      timestamp: expect.stringMatching(/(Z|\+00:00)$/),
    })
    const outputs = await waitForOutput(command.id)
    expect(outputs.map(({ order }) => order)).toEqual(outputs.map((_, n) => n))
    expect(outputs.map(({ stdout }) => stdout ?? '').join('')).toBe('out\n')
    expect(outputs.map(({ stderr }) => stderr ?? '').join('')).toBe('err\n')
    expect(outputs.at(-1)?.exit_code).toBe(7)
  },
)

wireCase(
  'POST /api/bash/start_bash_command',
  'has a timeout of five minutes by default, and refuses an invalid command',
  async () => {
    expect(await startCommand({ command: 'true' })).toMatchObject({ timeout: 300, cwd: null })
    for (const body of [{}, { command: 5 }, { command: 'true', timeout: 'x' }])
      expect(await wire.requestStatus('POST', '/api/bash/start_bash_command', { body })).toBe(422)
  },
)

wireCase(
  'GET /api/bash/bash_events/search',
  'filters by kind, command and order, in pages, with nulls',
  async () => {
    const { id } = await startCommand({ command: 'echo searched' })
    await waitForOutput(id)
    const { items } = await searchEvents({ command_id__eq: id, kind__eq: 'BashOutput' })
    for (const item of items) {
      expect(item).toMatchObject({ kind: 'BashOutput', command_id: expect.any(String) })
      expect(item).toHaveProperty('stderr', null)
    }
    const last = String(items.at(-1)?.order)
    expect(
      (await searchEvents({ command_id__eq: id, kind__eq: 'BashOutput', order__gt: last })).items,
    ).toEqual([])
    const newest = await searchEvents({ kind__eq: 'BashCommand', sort_order: 'TIMESTAMP_DESC', limit: '1' })
    expect(newest.items).toMatchObject([{ id, kind: 'BashCommand' }])
    for (const limit of ['0', '101'])
      expect(await wire.requestStatus('GET', '/api/bash/bash_events/search', { query: { limit } })).toBe(422)
  },
)

wireCase('POST /api/bash/execute_bash_command', 'returns the whole output and the exit code', async () => {
  const body = { command: 'cd / && pwd && seq 1 200000 | tail -c 1200000; echo e >&2; exit 5', timeout: 30 }
  const output = await wire.requestOrThrow<BashEvent>('POST', '/api/bash/execute_bash_command', { body })
  expect(output).toMatchObject({ kind: 'BashOutput', exit_code: 5, stderr: 'e\n' })
  expect(output.stdout?.startsWith('/\n')).toBe(true)
  expect(output.stdout?.endsWith('199999\n200000\n')).toBe(true)
  expect(output.stdout?.length).toBeGreaterThan(1_100_000)
})

wireCase(
  'POST /api/bash/execute_bash_command',
  'ends a command at its timeout, with its children',
  async () => {
    const output = await wire.requestOrThrow<BashEvent>('POST', '/api/bash/execute_bash_command', {
      body: { command: 'echo begun; sleep 300 & sleep 300', timeout: 1 },
    })
    expect(output).toMatchObject({ exit_code: -1, stdout: 'begun\n' })
  },
)

wireCase(
  'GET /api/bash/bash_events/{event_id}',
  'returns one command or output; unknown is 404',
  async () => {
    const command = await startCommand({ command: 'true' })
    const [output] = await waitForOutput(command.id)
    expect(await wire.requestOrThrow('GET', `/api/bash/bash_events/${command.id}`)).toEqual(command)
    expect(await wire.requestOrThrow('GET', `/api/bash/bash_events/${output?.id}`)).toEqual(output)
    expect(await wire.requestStatus('GET', `/api/bash/bash_events/${unknownId}`)).toBe(404)
  },
)

wireCase(
  'GET /api/bash/bash_events/',
  'returns the ids of a body in order, null for unknown ones',
  async () => {
    const command = await startCommand({ command: 'true' })
    const found = await wire.getWithBody('/api/bash/bash_events/', [command.id, unknownId])
    expect(found).toEqual({ status: 200, body: [command, null] })
  },
)

wireCase('DELETE /api/bash/bash_events', 'removes finished commands, and returns their number', async () => {
  await wire.runCommand('true')
  const { cleared_count } = await wire.requestOrThrow<{ cleared_count: number }>(
    'DELETE',
    '/api/bash/bash_events',
  )
  expect(cleared_count).toBeGreaterThanOrEqual(2)
  // Commands of other cases may end meanwhile.
  const clear = () => wire.requestOrThrow('DELETE', '/api/bash/bash_events')
  await expect.poll(clear, { timeout: 20_000 }).toEqual({ cleared_count: 0 })
})

wireCase(
  'POST /api/bash/bash_commands/{command_id}/stop',
  'ends a command with SIGTERM; once more and after its end it is the same; unknown 404',
  async () => {
    const stop = (id: string) => wire.request('POST', `/api/bash/bash_commands/${id}/stop`)
    const { id } = await startCommand({ command: 'sleep 300', timeout: 200 })
    const stubborn = await startCommand({ command: "trap '' TERM; echo up; while :; do sleep 0.1; done" })
    await expect
      .poll(async () => (await searchEvents({ command_id__eq: stubborn.id })).items.length, {
        timeout: 20_000,
      })
      .toBe(1)
    for (const one of [id, stubborn.id]) {
      expect(await stop(one)).toMatchObject({ status: 200, body: { success: true } })
      expect((await stop(one)).status).toBe(200)
    }
    expect((await waitForOutput(id)).at(-1)).toMatchObject({ exit_code: -15, stdout: null })
    expect((await waitForOutput(stubborn.id)).at(-1)).toMatchObject({ exit_code: -9 })
    expect((await stop(id)).status).toBe(200)
    expect((await stop(unknownId)).status).toBe(404)
    expect((await stop('x')).status).toBe(422)
  },
)

wireCase(
  'GET /api/bash/bash_events/search',
  'finds only the output of a command, so that a poller gets the next one with limit 1',
  async () => {
    const { id } = await startCommand({ command: 'echo one; sleep 0.3; echo two', timeout: 20 })
    await waitForOutput(id)
    const all = await searchEvents({ command_id__eq: id })
    expect(all.items.map(({ kind }) => kind)).toEqual(all.items.map(() => 'BashOutput'))
    const next = await searchEvents({ command_id__eq: id, order__gt: '0', limit: '1' })
    expect(next.items).toEqual(all.items.slice(1, 2))
    expect((await searchEvents({ command_id__eq: id, kind__eq: 'BashCommand' })).items).toMatchObject([
      { id },
    ])
  },
)

wireCase('POST /api/bash/execute_bash_command', 'tells programs that an agent runs them', async () => {
  expect(await wire.runCommand('echo "$AI_AGENT"')).toBe('openhands\n')
})
