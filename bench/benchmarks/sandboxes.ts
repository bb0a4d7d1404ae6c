import { must } from '@slipway/protocol'
import {
  answers,
  awake,
  bareContainers,
  bareProcesses,
  dormant,
  freezerOf,
  initialise,
  type Pausable,
  type StartBare,
} from '../support/bare-agent-servers.ts'
import type { Bench } from '../support/fixtures.ts'
import { atMost, information, percentile, type Row } from '../support/result-table.ts'
import { ControlPlane } from '../support/sandbox-server.ts'
import { sandboxCrowd } from './many-sandboxes.ts'

/**
 * Sandboxes as a user of the API sees them, looking every 10 ms, in each kind of place that there is here. A cold start, from the
 * request to RUNNING: p50 at most 1.5 times that of an agent server that is started bare (as a process with a warm compile cache,
 * or as a container) until it answers. From the warm pool: p50 at most 100 ms more than to give its settings to a bare one that
 * waits for them. To pause and to resume: p50 at most 50 ms more than by the freezer, or by the engine. Then many sandboxes on
 * one server (`sandbox-crowd.ts`).
 */
export async function sandboxes(bench: Bench): Promise<Row[]> {
  const rows: Row[] = []
  for (const place of await placesOf(bench)) {
    rows.push(...(await coldAndPaused(bench, place)), ...(await fromPool(bench, place)))
  }
  return [...rows, ...(await sandboxCrowd(bench))]
}

interface Place {
  readonly name: string
  readonly env: Readonly<Record<string, string>>
  readonly startBare: StartBare
}

/** Containers where the tests have an engine: `.ci/engines npm run bench -- sandboxes`. */
async function placesOf(bench: Bench): Promise<Place[]> {
  const processes = await bareProcesses(bench)
  const jailed = { SLIPWAY_ISOLATION: 'bubblewrap' }
  const plain = { SLIPWAY_ISOLATION: 'none' }
  const { SLIPWAY_TEST_DOCKER_SOCKET: socket, SLIPWAY_TEST_IMAGE: image } = process.env
  const docker = { SLIPWAY_BACKEND: 'docker', SLIPWAY_DOCKER_SOCKET: socket, SLIPWAY_SANDBOX_IMAGE: image }
  return [
    { name: 'bubblewrap', env: jailed, startBare: processes },
    { name: 'plain process', env: plain, startBare: processes },
    ...(socket === undefined || image === undefined
      ? []
      : [{ name: 'docker', env: defined(docker), startBare: bareContainers(socket, image) }]),
  ]
}

/** Nothing happens unless it is asked for: no sweep, no end of a session. */
const quiet = { SLIPWAY_RECONCILE_SECONDS: '3600' }

/** One at a time, ours and the bare one in turn; what is paused is the last of them. */
async function coldAndPaused(bench: Bench, { name, env, startBare }: Place): Promise<Row[]> {
  await using plane = await ControlPlane.open(bench, { ...quiet, ...env })
  await warmUp(plane, startBare)
  const ours: number[] = []
  const bare: number[] = []
  for (let round = 0; round < (bench.isQuick ? 2 : 50); round++) {
    const { id } = await timed(ours, async () => await plane.until((await plane.begin()).id, 'RUNNING'))
    await plane.remove(id)
    await using _server = await timed(bare, () => startBare(awake()))
  }
  return [
    atMost(`${name}: cold start, p50`, 'ms', percentile(ours, 50), percentile(bare, 50), 1.5),
    information(`${name}: cold start, p99`, 'ms', percentile(ours, 99), percentile(bare, 99)),
    ...(await paused(bench, name, plane, startBare)),
  ]
}

/** The first ones are not like those that follow: code is compiled, images are unpacked. */
async function warmUp(plane: ControlPlane, startBare: StartBare): Promise<void> {
  for (let round = 0; round < 3; round++) {
    const { id } = await plane.begin()
    await plane.until(id, 'RUNNING')
    await plane.remove(id)
    await using _server = await startBare(awake())
  }
}

/** One sandbox to and fro; the same processes by their freezer, or what is bare by its own means. */
async function paused(bench: Bench, name: string, plane: ControlPlane, startBare: StartBare): Promise<Row[]> {
  const { id, exposed_urls } = await plane.until((await plane.begin()).id, 'RUNNING')
  const url = must(
    exposed_urls?.find((each) => each.name === 'AGENT_SERVER'),
    'an address',
  ).url
  await using bare = await startBare(awake())
  const freezer = freezerOf(plane.groupsOf(id))
  const floor: Pausable & { readonly url: string } = freezer === undefined ? bare : { ...freezer, url }
  const [pauses, resumes, barePauses, bareResumes]: [number[], number[], number[], number[]] = [
    [],
    [],
    [],
    [],
  ]
  for (let round = 0; round < (bench.isQuick ? 3 : 200); round++) {
    await timed(pauses, () => plane.pause(id))
    await timed(resumes, async () => {
      await plane.resume(id)
      await plane.until(id, 'RUNNING')
    })
    await timed(barePauses, () => floor.pause())
    await timed(bareResumes, async () => {
      await floor.resume()
      await answers(floor.url)
    })
  }
  await plane.remove(id)
  return [
    ...within(`${name}: pause`, pauses, barePauses, 50),
    ...within(`${name}: resume`, resumes, bareResumes, 50),
  ]
}

/** From a pool of one that is full again each time. */
async function fromPool(bench: Bench, { name, env, startBare }: Place): Promise<Row[]> {
  await using plane = await ControlPlane.open(bench, { ...quiet, ...env, SLIPWAY_WARM_POOL: '1' })
  const ours: number[] = []
  const bare: number[] = []
  for (let round = 0; round < (bench.isQuick ? 2 : 50); round++) {
    await using server = await startBare(dormant)
    await plane.warm(1)
    await timed(bare, () => initialise(server))
    const { id } = await timed(ours, async () => await plane.until((await plane.begin()).id, 'RUNNING'))
    await plane.warm(1)
    await plane.remove(id)
  }
  return within(`${name}: from the warm pool`, ours, bare, 100)
}

/** The median may take so many milliseconds more than that of the floor. */
function within(name: string, ours: readonly number[], floor: readonly number[], moreMs: number): Row[] {
  return [
    atMost(`${name}, p50 (and ${moreMs} ms)`, 'ms', percentile(ours, 50), percentile(floor, 50) + moreMs),
    information(`${name}, p50`, 'ms', percentile(ours, 50), percentile(floor, 50)),
    information(`${name}, p99`, 'ms', percentile(ours, 99), percentile(floor, 99)),
  ]
}

async function timed<T>(into: number[], work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  const result = await work()
  into.push(performance.now() - startedAt)
  return result
}

function defined(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
}
