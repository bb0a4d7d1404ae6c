import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { formatInstant } from '@slipway/protocol'
import {
  type BenchContext,
  getJson,
  importLog,
  postJson,
  searchPath,
  startAgentServer,
  withStorage,
} from '../support/fixtures.ts'
import { firstInstant, generateLog } from '../support/generate-log.ts'
import type { LoadRequest, LoadResult } from '../support/http-load.ts'
import { residentMb, type Server, startHelper } from '../support/processes.ts'
import { atLeast, Floor, information, median, percentile, type ResultRow } from '../support/result-table.ts'
import { SeededRandom } from '../support/seeded-random.ts'

/**
 * Fifty agents at once on one server: each runs a script of thoughts and `echo` commands in a terminal of its
 * own, is followed by a reader, and ends with the right output for every call. Together they take at least as
 * many steps a second as one after another on the same kind of server. Meanwhile a client searches another
 * conversation, at most a hundred times a second.
 */
export async function crowd(bench: BenchContext): Promise<ResultRow[]> {
  const size = bench.isQuick ? { agents: 4, steps: 4 } : { agents: 50, steps: 20 }
  const alone = await runAgents(bench, { ...size, concurrency: 1 })
  const together = await runAgents(bench, { ...size, concurrency: size.agents })
  const rate = ({ seconds }: CrowdResult) => (size.agents * size.steps) / seconds
  const name = `${size.agents} agents`
  const floorName = 'one agent after another'
  const beside = (what: string, unit: string, figure: (result: CrowdResult) => number) =>
    information(`${name} at once${what}`, unit, figure(together), Floor.of(floorName, [figure(alone)]))
  const pairs = [{ ours: rate(together), floor: rate(alone) }]
  return [
    atLeast(`${name} at once`, 'steps/s', { floorName, pairs }, 1),
    beside(', all done', 's', ({ seconds }) => seconds),
    beside(': p50 of an agent', 's', ({ agentSeconds }) => median(agentSeconds)),
    beside(': slowest agent', 's', ({ agentSeconds }) => percentile(agentSeconds, 100)),
    beside(': p50 of a search page', 'ms', ({ searchLatenciesMs }) => median(searchLatenciesMs)),
    beside(': p99 of a search page', 'ms', ({ searchLatenciesMs }) => percentile(searchLatenciesMs, 99)),
    beside(': most memory', 'MB', ({ peakMb }) => peakMb),
  ]
}

/** An agent that takes longer than this hangs. */
const timeoutMs = 300_000

interface CrowdPlan {
  readonly agents: number
  readonly steps: number
  /** How many run at the same time. */
  readonly concurrency: number
}

interface CrowdResult {
  readonly seconds: number
  /** Seconds of each agent from its message to the end of its events. */
  readonly agentSeconds: readonly number[]
  /** Latencies in milliseconds. */
  readonly searchLatenciesMs: readonly number[]
  readonly peakMb: number
}

/** A fresh server: one agent to warm it, then all of them. */
async function runAgents(bench: BenchContext, plan: CrowdPlan): Promise<CrowdResult> {
  const data = await bench.directory()
  const events = bench.isQuick ? 1_000 : 20_000
  await withStorage(data, (storage) => importLog(storage, generateLog({ count: events, words: 30 })))
  await using server = await startAgentServer(bench, data)
  const directory = await bench.directory()
  const agents = await Promise.all(
    Array.from({ length: plan.agents + 1 }, (_, n) =>
      createAgent(server, join(directory, `${n}`), plan.steps),
    ),
  )
  await runToEnd(server, agents.pop() ?? '')
  const stop = new AbortController()
  const observed = searchMeanwhile(server, events, stop.signal)
  const startedAt = performance.now()
  const agentSeconds: number[] = []
  const remaining = agents.values()
  await Promise.all(
    Array.from({ length: plan.concurrency }, async () => {
      for (const agent of remaining) agentSeconds.push(await runToEnd(server, agent))
    }),
  )
  const seconds = (performance.now() - startedAt) / 1000
  stop.abort()
  const { searches: searchLatenciesMs, mostMb: peakMb } = await observed
  for (const agent of agents) await expectFinished(server, agent, plan.steps)
  return { seconds, agentSeconds, searchLatenciesMs, peakMb }
}

async function createAgent(server: Server, working_dir: string, steps: number): Promise<string> {
  const script = Array.from({ length: steps }, (_, n) =>
    n % 2 === 0
      ? { tool_calls: [{ name: 'think', arguments: { thought: `Step ${n} comes next.` } }] }
      : { tool_calls: [{ name: 'terminal', arguments: { command: `echo "this is step $((${n} + 0))"` } }] },
  )
  const llm = { model: 'scripted/crowd', script: [...script, { text: 'All steps are done.' }] }
  const { id } = await postJson<{ id: string }>(server, '/api/conversations', {
    agent: { llm, tools: [{ name: 'terminal' }] },
    workspace: { working_dir },
    autotitle: false,
  })
  return id
}

/** Sends the first message and reads the events to the end; returns the seconds that took. */
async function runToEnd(server: Server, agent: string): Promise<number> {
  const startedAt = performance.now()
  const path = `/api/conversations/${agent}/events`
  await postJson(server, path, {
    role: 'user',
    content: [{ type: 'text', text: 'Take all steps.' }],
    run: true,
  })
  const stream = await fetch(`http://127.0.0.1:${server.port}${path}/stream?after=0&until=idle`, {
    signal: AbortSignal.timeout(timeoutMs),
  })
  if (stream.status !== 200) throw new Error(`${path}/stream: ${stream.status} ${await stream.text()}`)
  await stream.arrayBuffer()
  return (performance.now() - startedAt) / 1000
}

/** Searches pages at random positions, with a pause of 10 ms after each, and samples the server's memory. */
async function searchMeanwhile(server: Server, events: number, signal: AbortSignal) {
  await using load = startHelper<LoadRequest, LoadResult>('./http-load.ts')
  const random = new SeededRandom(4)
  const searches: number[] = []
  let mostMb = 0
  while (!signal.aborted) {
    // Events of the log are a second apart.
    const since = formatInstant(firstInstant + random.below(events * 900_000))
    const path = `${searchPath}?limit=100&timestamp__gte=${encodeURIComponent(since)}`
    const { latenciesMs } = await load.ask({ port: server.port, paths: [path], count: 1, connections: 1 })
    searches.push(...latenciesMs)
    mostMb = Math.max(mostMb, residentMb(server.pid))
    await sleep(10)
  }
  return { searches, mostMb }
}

/**
 * Checks that the run is finished and that the log has the result of each call and the output of each
 * command.
 */
async function expectFinished(server: Server, agent: string, steps: number): Promise<void> {
  const path = `/api/conversations/${agent}`
  const { execution_status } = await getJson<{ execution_status: string }>(server, path)
  const kinds: Record<string, number> = {}
  const outputs: string[] = []
  let page_id: string | null = ''
  do {
    const page: Page = await getJson<Page>(server, `${path}/events/search?limit=100&page_id=${page_id}`)
    for (const { kind, observation } of page.items) {
      kinds[kind] = (kinds[kind] ?? 0) + 1
      if (observation !== undefined) outputs.push(observation.content[0]?.text ?? '')
    }
    page_id = page.next_page_id
  } while (page_id !== null)
  const actual = { execution_status, kinds }
  const expected = {
    execution_status: 'finished',
    kinds: {
      SystemPromptEvent: 1,
      MessageEvent: 2,
      ConversationStateUpdateEvent: 2,
      ActionEvent: steps,
      ObservationEvent: steps,
    },
  }
  const isRight = (output: string, n: number) => n % 2 === 0 || output.startsWith(`this is step ${n}`)
  if (isDeepStrictEqual(actual, expected) && outputs.every(isRight)) return
  throw new Error(`an agent has an unexpected result: ${JSON.stringify({ ...actual, outputs })}`)
}

interface Page {
  readonly items: readonly {
    readonly kind: string
    readonly observation?: { readonly content: readonly { readonly text?: string }[] }
  }[]
  readonly next_page_id: string | null
}
