import Docker from 'dockerode'
import { test } from 'vitest'

/** A container engine for tests: its socket, and an image of the agent server in it. */
export interface TestEngine {
  readonly socketPath: string
  readonly image: string
}

/** The engine whose socket a variable names (`.ci/engines` sets them); undefined when it is not set. */
export function testEngine(variable: string): TestEngine | undefined {
  const socketPath = process.env[variable]
  if (!socketPath) return undefined
  return { socketPath, image: process.env.SLIPWAY_TEST_IMAGE || 'slipway-agent-server' }
}

const engines = [
  ['docker', 'SLIPWAY_TEST_DOCKER_SOCKET'],
  ['podman', 'SLIPWAY_TEST_PODMAN_SOCKET'],
] as const

/**
 * Defines tests for Docker and for Podman, which a whole run of the gate leaves to the night; a test that is
 * skipped says how to start a missing one.
 */
export function defineForEachEngine(define: (name: string, engine: TestEngine) => void): void {
  for (const [name, variable] of process.env.SLIPWAY_TEST_GATE === '1' ? engines.slice(0, 1) : engines) {
    const engine = testEngine(variable)
    if (engine !== undefined) define(name, engine)
    else
      test.skip(`${name}: ${variable} is not set; \`.ci/engines npx vitest run <file>\` starts an engine and sets it`, () => {})
  }
}

/** Containers and volumes with the label of a control plane, as text; `id` selects one sandbox. */
export async function listEngineResources(
  engine: TestEngine,
  controlPlane: string,
  id = '',
): Promise<string[]> {
  const { docker, filters } = connect(engine, controlPlane)
  const [containers, { Volumes: volumes }] = await Promise.all([
    docker.listContainers({ all: true, filters }),
    docker.listVolumes({ filters }),
  ])
  return [
    ...containers.map(({ Names, State }) => `container ${Names.join()} ${State}`),
    ...(volumes ?? []).map(({ Name }) => `volume ${Name}`),
  ].filter((thing) => thing.includes(id))
}

/** Kills the processes of all containers of a sandbox. */
export async function killContainers(engine: TestEngine, controlPlane: string, id: string): Promise<number> {
  const { docker, filters } = connect(engine, controlPlane)
  const containers = (await docker.listContainers({ filters })).filter(({ Names }) =>
    Names.some((name) => name.includes(id)),
  )
  for (const { Id } of containers) await docker.getContainer(Id).kill()
  return containers.length
}

/** Removes everything with the label of a control plane, its network too, which servers do not remove. */
export async function removeEngineResources(engine: TestEngine, controlPlane: string): Promise<void> {
  const { docker, filters } = connect(engine, controlPlane)
  for (const { Id } of await docker.listContainers({ all: true, filters }))
    await docker.getContainer(Id).remove({ force: true, v: true })
  for (const { Name } of (await docker.listVolumes({ filters })).Volumes ?? [])
    await docker.getVolume(Name).remove()
  for (const { Id } of await docker.listNetworks({ filters })) await docker.getNetwork(Id).remove()
}

function connect({ socketPath }: TestEngine, controlPlane: string) {
  const docker = new Docker({ host: '', protocol: 'http', socketPath })
  return { docker, filters: JSON.stringify({ label: [`dev.slipway.ledger=${controlPlane}`] }) }
}
