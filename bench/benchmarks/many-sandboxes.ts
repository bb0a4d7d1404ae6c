import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchContext } from '../support/fixtures.ts'
import { residentMb } from '../support/processes.ts'
import { atMost, Floor, information, percentile, type ResultRow } from '../support/result-table.ts'
import { ControlPlane } from '../support/sandbox-server.ts'

/**
 * 500 process sandboxes on one server, nine of ten paused, reconciled every second. The agent servers are the
 * smallest programs that act as one, because only the sandbox server is measured. Its memory after some
 * minutes: at most 1.15 times that at the beginning. Also measured: the cost of reconciling, with a bare loop
 * that reads the same small files of each sandbox as the floor; and the latency of requests meanwhile.
 */
export async function manySandboxes(bench: BenchContext): Promise<ResultRow[]> {
  const count = bench.isQuick ? 10 : 500
  const seconds = bench.isQuick ? 4 : 90
  await using plane = await ControlPlane.open(bench, {
    SLIPWAY_RECONCILE_SECONDS: '1',
    SLIPWAY_MAX_SANDBOXES: '0',
    SLIPWAY_SANDBOX_SPECS: JSON.stringify([
      { id: 'tiny', command: [process.execPath, '-e', stubAgentServer, '--'] },
    ]),
  })
  const startedAt = performance.now()
  const ids = await startSandboxes(plane, count)
  const filledMs = performance.now() - startedAt
  await measureQuestions(plane, ids, seconds / 3)
  const beforeMb = residentMb(plane.pid)
  const cpu = plane.cpuSeconds
  await sleep(seconds * 1000)
  const share = (plane.cpuSeconds - cpu) / seconds
  const floorShare = await measureBareSweeps(plane, ids, Math.min(seconds, 20))
  const latencies = await measureQuestions(plane, ids, seconds)
  const name = `${count} sandboxes`
  const sweeps = Floor.of('a bare loop that reads the same files', [floorShare * 100])
  return [
    atMost(
      `${name}: memory of the server after ${seconds * 2} sweeps`,
      'MB',
      residentMb(plane.pid),
      Floor.of('its memory at the beginning', [beforeMb]),
      1.15,
    ),
    information(`${name}: a sweep each second`, '% of a core', share * 100, sweeps),
    information(`${name}: p50 of a question`, 'ms', percentile(latencies, 50)),
    information(`${name}: p99 of a question`, 'ms', percentile(latencies, 99)),
    information(`${name}: all started, most of them paused`, 's', filledMs / 1000),
  ]
}

/** The replies of an idle agent server. */
const stubAgentServer = `
const after = (name) => process.argv[process.argv.indexOf(name) + 1]
const answers = { '/ready': '{"status":"ready"}', '/alive': '{"status":"ok"}', '/api/conversations/count': '0' }
require('node:http').createServer((request, response) => {
  const answer = answers[request.url]
  response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' }).end(answer ?? '{}')
}).listen(after('--socket'))
`

/** Starts them, a few at a time, and pauses nine of ten. */
async function startSandboxes(plane: ControlPlane, count: number): Promise<string[]> {
  const ids: string[] = []
  const numbers = Array.from({ length: count }, (_, n) => n).values()
  const one = async () => {
    for (const n of numbers) {
      const { id } = await plane.startSandbox()
      await plane.waitForStatus(id, 'RUNNING')
      if (n % 10 !== 0) await plane.pause(id)
      ids.push(id)
    }
  }
  await Promise.all(Array.from({ length: 4 }, one))
  return ids
}

/** Sends one request after the other, at most 20 a second; returns their latencies in milliseconds. */
async function measureQuestions(
  plane: ControlPlane,
  ids: readonly string[],
  seconds: number,
): Promise<number[]> {
  const latencies: number[] = []
  for (const deadline = performance.now() + seconds * 1000; performance.now() < deadline; await sleep(50)) {
    latencies.push(await plane.measureGet(ids[latencies.length % ids.length] ?? ''))
  }
  return latencies
}

/**
 * The share of a core that it takes to read, once a second, the four small files of each sandbox: its record,
 * its supervisor's file and state, and whether it is frozen.
 */
async function measureBareSweeps(
  plane: ControlPlane,
  ids: readonly string[],
  seconds: number,
): Promise<number> {
  const files = ids.flatMap((id) => {
    const folder = join(plane.data, 'sandboxes', id)
    const { epoch, groups } = JSON.parse(readFileSync(join(folder, 'process.json'), 'utf8'))
    const pidFile = join(folder, `pid.${epoch}`)
    const pid = Number.parseInt(readFileSync(pidFile, 'utf8'), 10)
    const freezers = groups.map((group: string) => join(group, 'freezer.state'))
    return [join(folder, 'process.json'), pidFile, `/proc/${pid}/stat`, ...freezers]
  })
  const read = files.filter((file) => isReadable(file))
  const before = process.cpuUsage()
  for (let round = 0; round < seconds; round++) {
    for (const file of read) readFileSync(file)
    await sleep(1000)
  }
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1e6 / seconds
}

function isReadable(file: string): boolean {
  try {
    readFileSync(file)
    return true
  } catch {
    return false
  }
}
