import { mkdir, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import type { Benchmark } from '../support/benchmark.ts'
import { type BenchContext, getJson, postJson, startFloor } from '../support/fixtures.ts'
import type { LoadRequest, LoadResult } from '../support/http-load.ts'
import { ownMb, residentMb, type Server, startHelper } from '../support/processes.ts'
import {
  type Contender,
  findReference,
  ourServer,
  referenceServer,
  referenceVersion,
} from '../support/reference-server.ts'
import { atMost, Floor, information, percentile, type ResultRow } from '../support/result-table.ts'

/**
 * This server beside the published reference server (`openhands-agent-server`), on the same machine and one
 * after another: the same client, the same requests, the same scripted model. Every figure is a time or a
 * size, less is better, and the goal is a fifth of the reference's for appends, pages and search of the
 * longest log, lists and memory of its own, and no more than the reference's for all others. Each request has
 * been made a hundred times before it is measured. The processor time of the server is a separate row
 * without a goal: it does not depend on what else the machine does. A measurement that one of them cannot
 * finish has no row: the reason is printed, and the others continue. Raw figures:
 * `results/reference-raw.json`.
 */
export const reference: Benchmark = {
  isOnlyByName: true,
  async whyUnavailable() {
    const found = await findReference()
    return 'reason' in found ? found.reason : undefined
  },
  async run(bench) {
    const found = await findReference()
    if ('reason' in found) throw new Error(found.reason)
    const version = await referenceVersion(found.python)
    const size = bench.isQuick ? quickSize : scaledSize(Number(process.env.SLIPWAY_REFERENCE_SCALE ?? 1))
    const model = await startFloor('tool-model', String(size.calls))
    const results: Partial<Record<Contender['name'], Figures>> = {}
    for (const contender of [ourServer(bench), referenceServer(found.python)])
      results[contender.name] = await measureAll(bench, contender, model, size)
    await model[Symbol.asyncDispose]()
    const machine = `${cpus().length} x ${cpus()[0]?.model ?? 'unknown'}`
    if (!bench.isQuick)
      await writeFile(
        new URL('../results/reference-raw.json', import.meta.url),
        `${JSON.stringify({ reference: version, machine, node: process.version, ...results }, null, 2)}\n`,
      )
    return compare(results.ours ?? {}, results.reference ?? {})
  },
}

interface Size {
  /** Requests of each kind that are not measured, before those that are: a server runs for long. */
  readonly warmUps: number
  readonly creations: number
  /** Events of the conversation at which appends and searches are measured. */
  readonly events: readonly number[]
  readonly appends: number
  readonly searches: number
  readonly sockets: number
  readonly broadcasts: number
  /** Conversations that are listed on one page. */
  readonly listed: number
  readonly calls: number
  readonly conversations: number
  readonly manyConversations: number
  readonly stalledEvents: number
  readonly starts: number
}

/** Sockets: the reference takes 50 subscribers of a conversation, one of them its own. */
const fullSize: Size = {
  ...{
    warmUps: 100,
    creations: 20,
    events: [100, 1000, 10_000],
    appends: 50,
    searches: 20,
    sockets: 49,
    broadcasts: 50,
  },
  ...{ listed: 100, calls: 20, conversations: 1000, manyConversations: 2000, stalledEvents: 200 },
  starts: 3,
}
/** A fraction of the events and conversations, for a machine or an hour that the whole does not fit. */
function scaledSize(scale: number): Size {
  const times = (count: number) => Math.max(10, Math.round(count * scale))
  return {
    ...fullSize,
    events: fullSize.events.map(times),
    conversations: times(fullSize.conversations),
    manyConversations: times(fullSize.manyConversations),
    listed: Math.min(fullSize.listed, times(fullSize.conversations)),
    stalledEvents: times(fullSize.stalledEvents),
    starts: scale < 1 ? 1 : fullSize.starts,
  }
}

const quickSize: Size = {
  ...{ warmUps: 1, creations: 3, events: [20, 50], appends: 5, searches: 3, sockets: 5, broadcasts: 5 },
  ...{ listed: 10, calls: 3, conversations: 20, manyConversations: 40, stalledEvents: 20 },
  starts: 1,
}

interface Figure {
  readonly unit: 'ms' | 'MB'
  readonly value: number
  /** All values of which it is the median or a percentile, in order of measurement. */
  readonly all?: readonly number[]
  /** Processor time of the server for each of them, in ms; undefined where other work runs beside. */
  readonly cpuMs?: number
  /** Of the reference's figure. */
  readonly goal: number
}

type Figures = Record<string, Figure | { readonly notMeasured: string }>

const fifth = 0.2

/** All figures of one server; a measurement that fails says why. */
async function measureAll(
  bench: BenchContext,
  contender: Contender,
  model: Server,
  size: Size,
): Promise<Figures> {
  const directory = await bench.directory()
  const figures: Figures = {}
  const record = (name: string, unit: Figure['unit'], all: readonly number[], goal: number, percent = 50) => {
    figures[name] = { unit, value: percentile(all, percent), all: all.map(round), goal }
  }
  /** A median, or another percentile, with the processor time of each. */
  const measure = async (
    name: string,
    goal: number,
    work: () => Promise<readonly number[]>,
    percent = 50,
  ) => {
    const before = server.cpuSeconds()
    const all = await work()
    record(name, 'ms', all, goal, percent)
    const cpuMs = round(((server.cpuSeconds() - before) * 1000) / all.length)
    figures[name] = { ...(figures[name] as Figure), cpuMs }
  }
  const attempt = async (names: string, work: () => Promise<void>) => {
    console.log(`  ${contender.name}: ${names}`)
    try {
      await work()
    } catch (error) {
      const reason = error instanceof Error ? (error.message.split('\n', 1)[0] ?? '') : String(error)
      console.log(`  ${contender.name}: ${names}: not measured: ${reason}`)
      figures[names] = { notMeasured: reason.slice(0, 300) }
    }
  }
  let server = await contender.start(directory)
  try {
    const workspace = join(directory, 'project')
    await mkdir(workspace, { recursive: true })
    const client = new ReferenceClient(() => server, model, workspace)
    const recordMemory = async (name: string) => {
      await sleep(bench.isQuick ? 100 : 10_000)
      record(name, 'MB', [residentMb(server.pid)], 1)
      record(`${name}, without programs and files`, 'MB', [ownMb(server.pid)], fifth)
    }
    await attempt('memory at rest', () => recordMemory('memory at rest'))
    await attempt('create a conversation', async () => {
      const create = () => client.create()
      await repeat(size.warmUps, create)
      await measure('create a conversation', 1, () => repeat(size.creations, create))
    })
    let id = ''
    let stored = 0
    for (const events of size.events)
      await attempt(`at ${events} events`, async () => {
        id ||= await client.create()
        for (; stored < events; stored++) await client.append(id, stored)
        const goal = events === Math.max(...size.events) ? fifth : 1
        await measure(`append at ${events} events`, goal, () =>
          repeat(size.appends, () => client.append(id, stored++)),
        )
        for (const [name, query] of [
          ['first page of 100', '?limit=100'],
          ['newest page of 100', '?limit=100&sort_order=TIMESTAMP_DESC'],
          ['search for a text', `?limit=100&body=needle-${events - 1}x`],
        ] as const) {
          const search = () => client.download(`/api/conversations/${id}/events/search${query}`)
          await repeat(size.warmUps, search)
          await measure(`${name} at ${events} events`, goal, () => repeat(size.searches, search))
        }
      })
    await attempt('page at depth', async () => {
      await client.pageToEnd(id)
      await measure('page at depth', 1, () => client.pageToEnd(id), 100)
    })
    await attempt('socket fan-out', async () => {
      const name = `an event at ${size.sockets} sockets`
      await measure(name, 1, () => client.broadcast(size.sockets, size.broadcasts))
    })
    for (const [name, word] of [
      [`a run of ${size.calls} thoughts`, 'think'],
      [`a run of ${size.calls} commands`, 'work'],
    ] as const)
      await attempt(name, async () => {
        await measure(name, 1, () => repeat(bench.isQuick ? 1 : 3, () => client.run(word)))
      })
    await attempt('a stalled socket', async () => {
      const before = residentMb(server.pid)
      await measure('append beside a stalled socket', 1, () => client.stall(size.stalledEvents), 99)
      record('memory of a stalled socket', 'MB', [Math.max(0.1, residentMb(server.pid) - before)], 1)
    })
    await attempt('/health under load', async () => {
      record(
        '/health beside 8 readers, 99 %',
        'ms',
        await client.healthUnderLoad(id, size.searches * 5),
        1,
        99,
      )
    })
    await attempt('conversations listed', async () => {
      await client.createUntil(size.listed)
      const path = `/api/conversations/search?limit=${size.listed}`
      const list = () => client.download(path)
      await repeat(size.warmUps, list)
      await measure(`list ${size.listed} conversations`, fifth, () => repeat(size.searches, list))
    })
    await attempt(`start with ${size.conversations} conversations`, async () => {
      await client.createUntil(size.conversations)
      await recordMemory('memory after')
      const starts: number[] = []
      for (let start = 0; start < size.starts; start++) {
        await server[Symbol.asyncDispose]()
        const startedAt = performance.now()
        server = await contender.start(directory)
        await client.get('/api/conversations/search?limit=100')
        starts.push(performance.now() - startedAt)
      }
      record(`start with ${size.conversations} conversations, to the first page`, 'ms', starts, 1)
    })
    await attempt(`first page of ${size.manyConversations} conversations`, async () => {
      await client.createUntil(size.manyConversations)
      await measure(`first page of ${size.manyConversations} conversations`, fifth, () =>
        repeat(size.searches, () => client.download('/api/conversations/search?limit=100')),
      )
    })
  } finally {
    await server[Symbol.asyncDispose]()
  }
  return figures
}

function compare(ours: Figures, other: Figures): ResultRow[] {
  return Object.entries(ours).flatMap(([name, mine]) => {
    const theirs = other[name]
    if ('notMeasured' in mine || theirs === undefined || 'notMeasured' in theirs) return []
    const floor = (value: number) => Floor.of('the reference server', [value])
    const row = atMost(name, mine.unit, mine.value, floor(theirs.value), mine.goal)
    if (mine.cpuMs === undefined || theirs.cpuMs === undefined) return [row]
    return [row, information(`${name}, processor time`, 'ms', mine.cpuMs, floor(theirs.cpuMs))]
  })
}

/** What both servers are asked. */
class ReferenceClient {
  readonly #server: () => Server
  readonly #model: Server
  readonly #workspace: string
  #created = 0

  constructor(server: () => Server, model: Server, workspace: string) {
    this.#server = server
    this.#model = model
    this.#workspace = workspace
  }

  async create(): Promise<string> {
    const llm = {
      ...{ model: 'openai/gpt-4o', api_key: 'none', base_url: `http://127.0.0.1:${this.#model.port}/v1` },
      ...{ usage_id: 'agent', num_retries: 0 },
    }
    const body = {
      agent: { kind: 'Agent', llm, tools: [{ name: 'terminal' }] },
      workspace: { kind: 'LocalWorkspace', working_dir: this.#workspace },
      ...{ autotitle: false, stuck_detection: false },
    }
    const { id } = await postJson<{ id: string }>(this.#server(), '/api/conversations', body)
    this.#created++
    return id
  }

  async createUntil(count: number): Promise<void> {
    while (this.#created < count) await this.create()
  }

  async append(
    id: string,
    n: number,
    text = `needle-${n}x ${'a line of what was seen and done '.repeat(20)}`,
  ) {
    const body = { role: 'user', content: [{ type: 'text', text }], run: false }
    await postJson(this.#server(), `/api/conversations/${id}/events`, body)
  }

  async get<T = unknown>(path: string): Promise<T> {
    return await getJson<T>(this.#server(), path)
  }

  /** Until the whole answer is there: what the client makes of it is not the server's time. */
  async download(path: string): Promise<void> {
    const response = await fetch(`http://127.0.0.1:${this.#server().port}${path}`)
    await response.arrayBuffer()
    if (!response.ok) throw new Error(`${path}: ${response.status}`)
  }

  async search(id: string, query: string): Promise<{ items: unknown[]; next_page_id: string | null }> {
    return await this.get(`/api/conversations/${id}/events/search${query}`)
  }

  /** The durations of all pages of 100 of a log. */
  async pageToEnd(id: string): Promise<number[]> {
    const times: number[] = []
    for (let page: string | null = ''; page !== null; ) {
      const query: string = page === '' ? '' : `&page_id=${encodeURIComponent(page)}`
      const startedAt = performance.now()
      page = (await this.search(id, `?limit=100${query}`)).next_page_id
      times.push(performance.now() - startedAt)
    }
    return times
  }

  /** From each POST until all sockets have its event. */
  async broadcast(count: number, events: number): Promise<number[]> {
    const id = await this.create()
    let frames = 0
    let expected = Number.POSITIVE_INFINITY
    let onAll = () => {}
    const url = `ws://127.0.0.1:${this.#server().port}/sockets/events/${id}`
    const sockets = await Promise.all(
      Array.from({ length: count }, async () => {
        const socket = new WebSocket(url)
        socket.on('message', (data) => {
          if (!String(data).includes('broadcast-')) return
          if (++frames >= expected) onAll()
        })
        await new Promise((done, fail) => {
          socket.once('message', done).once('error', fail)
          socket.once('close', (code) => fail(new Error(`a socket was closed with ${code}`)))
        })
        return socket
      }),
    )
    try {
      const times: number[] = []
      for (let event = 0; event < events; event++) {
        frames = 0
        expected = count
        const all = new Promise<void>((done) => (onAll = done))
        const startedAt = performance.now()
        await this.append(id, event, `broadcast-${event} ${'a line of what was seen '.repeat(30)}`)
        await Promise.race([all, late(60_000, 'a socket has not received the event')])
        times.push(performance.now() - startedAt)
      }
      return times
    } finally {
      for (const socket of sockets) socket.terminate()
    }
  }

  /** A run to its end. */
  async run(word: string): Promise<void> {
    const id = await this.create()
    await this.append(id, 0, word)
    await postJson(this.#server(), `/api/conversations/${id}/run`, {})
    for (const end = performance.now() + 300_000; ; await sleep(5)) {
      const { execution_status } = await this.get<{ execution_status: string }>(`/api/conversations/${id}`)
      if (execution_status === 'finished') return
      if (execution_status === 'error' || performance.now() > end)
        throw new Error(`the run is ${execution_status}`)
    }
  }

  /** Appends of 64 kB beside a socket that does not read. */
  async stall(events: number): Promise<number[]> {
    const id = await this.create()
    const socket = await openStalledSocket(this.#server().port, `/sockets/events/${id}`)
    try {
      let event = 0
      return await repeat(events, () => this.append(id, event++, 'x '.repeat(32_000)))
    } finally {
      socket.destroy()
    }
  }

  /** `/health` while eight connections of another process ask for pages. */
  async healthUnderLoad(id: string, count: number): Promise<number[]> {
    await using readers = startHelper<LoadRequest, LoadResult>('./http-load.ts')
    const paths = [`/api/conversations/${id}/events/search?limit=100&sort_order=TIMESTAMP_DESC`]
    let isOver = false
    const read = async () => {
      while (!isOver) await readers.ask({ port: this.#server().port, paths, count: 100, connections: 8 })
    }
    const reading = read()
    // Awaited below; until then a failure must not end the whole run.
    reading.catch(() => {})
    try {
      await sleep(500)
      return await repeat(count, async () => void (await this.get('/health')))
    } finally {
      isOver = true
      await reading
    }
  }
}

/** A WebSocket that reads nothing after its upgrade. */
async function openStalledSocket(port: number, path: string): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port })
  socket.write(
    `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n` +
      'sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
  )
  await new Promise((done, fail) => socket.once('data', done).once('error', fail))
  socket.on('error', () => {})
  socket.pause()
  return socket
}

async function repeat(count: number, work: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = []
  for (let n = 0; n < count; n++) {
    const startedAt = performance.now()
    await work()
    times.push(performance.now() - startedAt)
  }
  return times
}

async function late(ms: number, what: string): Promise<never> {
  await sleep(ms, undefined, { ref: false })
  throw new Error(what)
}

const round = (value: number) => Math.round(value * 100) / 100
