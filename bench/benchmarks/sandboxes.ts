import { spawnSync } from 'node:child_process'
import { must } from '@slipway/protocol'
import { RecordedClaim } from '../floors/recorded-claim.ts'
import { RecordedPause } from '../floors/recorded-pause.ts'
import {
  findFreezer,
  type Pausable,
  type StartBareServer,
  sessionKeyEnv,
  startBareContainers,
  startBareProcesses,
} from '../support/bare-agent-servers.ts'
import type { Benchmark } from '../support/benchmark.ts'
import type { BenchContext } from '../support/fixtures.ts'
import { atMost, Floor, information, percentile, type ResultRow } from '../support/result-table.ts'
import { ControlPlane } from '../support/sandbox-server.ts'

/**
 * Sandboxes as a user of the API sees them, polled every 10 ms, on each backend. A cold start, from the
 * request to RUNNING: p50 at most 1.3 times (docker: 1.5) the start of a bare agent server (as a process with
 * a warm compile cache, or as a container) until it answers. From the warm pool, beside one request
 * of a bare server and one row that is written durably. Pause and resume, beside a bare server that records
 * both states durably and calls the freezer or the engine.
 */
export const sandboxBenchmarks: Readonly<Record<string, Benchmark>> = {
  'sandboxes-bubblewrap': {
    run: async (bench) =>
      measure(bench, {
        name: 'bubblewrap',
        env: { SLIPWAY_ISOLATION: 'bubblewrap' },
        startBare: await startBareProcesses(bench),
        goals: processGoals,
      }),
    whyUnavailable: async () => {
      const { status } = spawnSync('bwrap', ['--ro-bind', '/', '/', 'true'])
      return status === 0 ? undefined : 'bubblewrap is not installed, or may not create namespaces here'
    },
  },
  'sandboxes-process': {
    run: async (bench) =>
      measure(bench, {
        name: 'plain process',
        env: { SLIPWAY_ISOLATION: 'none' },
        startBare: await startBareProcesses(bench),
        goals: processGoals,
      }),
  },
  'sandboxes-kubernetes': {
    run: async (bench) => {
      const { openNamespace, serverSettings, testCluster } = await clusterFixture()
      const cluster = must(testCluster(), 'a cluster')
      await using namespace = await openNamespace(cluster)
      const { startBarePods } = await import('../support/bare-pods.ts')
      const setup = {
        name: 'kubernetes',
        env: {
          ...serverSettings(namespace),
          // A Pod of the pool that the scheduler leaves waiting is made again.
          SLIPWAY_RECONCILE_SECONDS: '5',
          // What sandboxes report goes nowhere.
          SLIPWAY_INTERNAL_URL: `http://${cluster.host}:9`,
        },
        // The kubelet looks at volumes and containers in steps, so runs differ by a quarter of a second.
        startBare: startBarePods(cluster, namespace.name, true),
        startLike: {
          name: 'a bare Pod without a volume claim',
          start: startBarePods(cluster, namespace.name),
        },
        goals: { ...processGoals, claim: 3 },
        canFreeze: false,
      }
      return await measure(bench, setup)
    },
    whyUnavailable: async () =>
      (await clusterFixture()).testCluster() === undefined
        ? 'no cluster: `.ci/cluster run npm run bench -- sandboxes-kubernetes` starts one'
        : undefined,
  },
  'sandboxes-docker': {
    run: (bench) => {
      const { socket, image } = testEngine()
      const env = { SLIPWAY_BACKEND: 'docker', SLIPWAY_DOCKER_SOCKET: socket, SLIPWAY_SANDBOX_IMAGE: image }
      const startBare = startBareContainers(socket, image)
      return measure(bench, { name: 'docker', env, startBare, goals: dockerGoals })
    },
    whyUnavailable: async () => {
      const { socket, image } = testEngine()
      const hint = 'no container engine: `.ci/engines npm run bench -- sandboxes` starts one'
      return socket === '' || image === '' ? hint : undefined
    },
  },
}

/** The largest ratios of the medians to those of the floors. */
interface Goals {
  readonly coldStart: number
  readonly claim: number
  readonly pause: number
  readonly resume: number
}

const processGoals: Goals = { coldStart: 1.3, claim: 2, pause: 8, resume: 2.2 }
const dockerGoals: Goals = { coldStart: 1.5, claim: 3, pause: 4, resume: 4 }
const defaultRounds = 30

/** Loaded on use: it loads the client of Kubernetes. */
const clusterFixture = () =>
  import('../../packages/sandbox-server/src/backends/kubernetes/testing/test-cluster.ts')

interface SandboxSetup {
  readonly goals: Goals
  readonly name: string
  readonly env: Readonly<Record<string, string>>
  readonly startBare: StartBareServer
  /** Another floor of a cold start, which does less than a sandbox has to. */
  readonly startLike?: { readonly name: string; readonly start: StartBareServer }
  readonly rounds?: number
  /** A pause leaves the processes as they are. */
  readonly canFreeze?: boolean
}

function testEngine(): { socket: string; image: string } {
  const { SLIPWAY_TEST_DOCKER_SOCKET: socket = '', SLIPWAY_TEST_IMAGE: image = '' } = process.env
  return { socket, image }
}

async function measure(bench: BenchContext, setup: SandboxSetup): Promise<ResultRow[]> {
  return [...(await measureColdStartAndPause(bench, setup)), ...(await measureWarmPool(bench, setup))]
}

/** Disables everything that happens without a request: reconciliation, the end of a session. */
const idleEnv = { SLIPWAY_RECONCILE_SECONDS: '3600' }

/** One at a time, ours and the bare one in turn; the last of them are paused. */
async function measureColdStartAndPause(
  bench: BenchContext,
  { name, env, startBare, startLike, goals, rounds = defaultRounds, canFreeze = true }: SandboxSetup,
): Promise<ResultRow[]> {
  await using plane = await ControlPlane.open(bench, { ...idleEnv, ...env })
  await warmUp(plane, startBare)
  const ours: number[] = []
  const bare: number[] = []
  const alike: number[] = []
  for (let round = 0; round < (bench.isQuick ? 2 : rounds); round++) {
    const { id } = await measureInto(
      ours,
      async () => await plane.waitForStatus((await plane.startSandbox()).id, 'RUNNING'),
    )
    await plane.deleteSandbox(id)
    {
      await using _bare = await measureInto(bare, () => startBare(sessionKeyEnv()))
    }
    if (startLike === undefined) continue
    await using _alike = await measureInto(alike, () => startLike.start(sessionKeyEnv()))
  }
  return [
    ...compareMedian(`${name}: cold start`, ours, { name: 'a bare agent server', ms: bare }, goals.coldStart),
    ...(startLike === undefined
      ? []
      : [
          information(
            `${name}: cold start beside ${startLike.name}, p50`,
            'ms',
            percentile(ours, 50),
            Floor.of(startLike.name, alike),
          ),
        ]),
    ...(canFreeze ? await measurePause(bench, { name, startBare, goals }, plane) : []),
  ]
}

/** The first ones are slower than the others: code is compiled, images are unpacked. */
async function warmUp(plane: ControlPlane, startBare: StartBareServer): Promise<void> {
  for (let round = 0; round < 3; round++) {
    const { id } = await plane.startSandbox()
    await plane.waitForStatus(id, 'RUNNING')
    await plane.deleteSandbox(id)
    await using _server = await startBare(sessionKeyEnv())
  }
}

/**
 * Pauses and resumes one sandbox; the floor does it by the freezer on the same processes, or by the engine on the
 * bare container.
 */
async function measurePause(
  bench: BenchContext,
  { name, startBare, goals }: Pick<SandboxSetup, 'name' | 'startBare' | 'goals'>,
  plane: ControlPlane,
): Promise<ResultRow[]> {
  const { id, exposed_urls } = await plane.waitForStatus((await plane.startSandbox()).id, 'RUNNING')
  const url = must(
    exposed_urls?.find((each) => each.name === 'AGENT_SERVER'),
    'an address',
  ).url
  await using bare = await startBare(sessionKeyEnv())
  const freezer = findFreezer(plane.cgroups(id))
  const target: Pausable & { readonly url: string } = freezer === undefined ? bare : { ...freezer, url }
  await using floor = await RecordedPause.open(await bench.directory(), target)
  const [pauses, resumes, barePauses, bareResumes]: [number[], number[], number[], number[]] = [
    [],
    [],
    [],
    [],
  ]
  for (let round = 0; round < (bench.isQuick ? 3 : 100); round++) {
    await measureInto(pauses, () => plane.pause(id))
    await measureInto(resumes, async () => {
      await plane.resume(id)
      await plane.waitForStatus(id, 'RUNNING')
    })
    await measureInto(barePauses, () => floor.pause())
    await measureInto(bareResumes, () => floor.resume())
  }
  await plane.deleteSandbox(id)
  return [
    ...compareMedian(
      `${name}: pause`,
      pauses,
      { name: 'a bare recorded pause', ms: barePauses },
      goals.pause,
    ),
    ...compareMedian(
      `${name}: resume`,
      resumes,
      { name: 'a bare recorded resume', ms: bareResumes },
      goals.resume,
    ),
  ]
}

/** From a pool of one that is full again each time; then a first command in it, beside a bare one. */
async function measureWarmPool(
  bench: BenchContext,
  { name, env, startBare, goals, rounds = defaultRounds }: SandboxSetup,
): Promise<ResultRow[]> {
  await using plane = await ControlPlane.open(bench, { ...idleEnv, ...env, SLIPWAY_WARM_POOL: '1' })
  const bareEnv = sessionKeyEnv()
  await using server = await startBare(bareEnv)
  using claim = new RecordedClaim(await bench.directory(), server.url, bareEnv.SLIPWAY_SESSION_API_KEY)
  const [ours, bare, withCommand, bareCommands]: [number[], number[], number[], number[]] = [[], [], [], []]
  for (let round = 0; round < (bench.isQuick ? 2 : rounds); round++) {
    await plane.waitForWarmPool(1)
    await measureInto(bare, () => claim.run())
    const startedAt = performance.now()
    const box = await plane.startRunningSandbox()
    const claimedAt = performance.now()
    await plane.runCommand(box, 'true')
    const endedAt = performance.now()
    spawnSync('bash', ['-c', 'true'])
    ours.push(claimedAt - startedAt)
    withCommand.push(endedAt - startedAt)
    bareCommands.push(claimedAt - startedAt + performance.now() - endedAt)
    await plane.waitForWarmPool(1)
    await plane.deleteSandbox(box.id)
  }
  const floor = { name: 'a request of a bare agent server, and a row', ms: bare }
  const commandFloor = { name: 'the claim, and a bare command', ms: bareCommands }
  return [
    ...compareMedian(`${name}: from the warm pool`, ours, floor, goals.claim),
    ...compareMedian(`${name}: from the warm pool to the end of a command`, withCommand, commandFloor, 1.5),
  ]
}

/** The median, which has a goal, and p99. */
function compareMedian(
  name: string,
  ours: readonly number[],
  floor: { readonly name: string; readonly ms: readonly number[] },
  goal: number,
): ResultRow[] {
  const at = (percent: number) => Floor.of(floor.name, floor.ms, percent)
  return [
    atMost(`${name}, p50`, 'ms', percentile(ours, 50), at(50), goal),
    information(`${name}, p99`, 'ms', percentile(ours, 99), at(99)),
  ]
}

async function measureInto<T>(into: number[], work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  const result = await work()
  into.push(performance.now() - startedAt)
  return result
}
