import { join } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import { errorText } from '@slipway/shared/text'
import type { Backend } from '../backends/backend.ts'
import type { ProcessBackend } from '../backends/process/process-backend.ts'
import type { Config } from '../config/config.ts'
import { hostSocketPath } from '../network/internal-listeners.ts'

interface BackendDeps {
  /** Data directory of the server, absolute. */
  readonly directory: string
  readonly socketDirectory: string
  readonly ledgerId: string
  /** Other servers use the data directory too. */
  readonly isShared?: boolean
  readonly agent: { readonly command: readonly string[]; readonly readable: readonly string[] }
  readonly log: LogFunction
  /** Accept sandboxes that are ordinary processes, without `SLIPWAY_ISOLATION=none`. */
  readonly isIsolationOptional?: boolean | undefined
}

/** The backends of the specs, the default one first. Loads only the modules of these. */
export async function openBackends(config: Config, deps: BackendDeps): Promise<ReadonlyMap<string, Backend>> {
  const names = new Set([config.backend, ...config.specs.map(({ backend }) => backend)])
  const opened = new Map<string, Backend>()
  for (const name of names) opened.set(name, await openBackend(name, config, deps))
  return opened
}

async function openBackend(name: string, config: Config, deps: BackendDeps): Promise<Backend> {
  const { directory, socketDirectory, ledgerId, agent, log } = deps
  if (name === 'process') {
    const { ProcessBackend } = await import('../backends/process/process-backend.ts')
    const backend = new ProcessBackend({
      directory: join(directory, 'sandboxes'),
      ledgerId,
      agentCommand: agent.command,
      readable: agent.readable,
      inaccessible: [directory],
      isDirectoryShared: deps.isShared === true,
      log,
      isolate: config.isolation,
      mayShareNetwork: isNetworkOptional(config, deps),
      hostSocket: hostSocketPath(socketDirectory),
      codeDirectory: join(directory, 'code'),
    })
    await assertIsolated(backend, config, deps)
    await assertNetworks(backend, config, deps)
    return backend
  }
  if (name === 'docker') {
    const { DockerBackend } = await import('../backends/docker/docker-backend.ts')
    const backend = new DockerBackend({
      socketPath: config.dockerSocket,
      ledgerId,
      log,
      defaultImage: config.image,
    })
    // An absent engine is said now, not at each start of a sandbox.
    await backend.isolation().catch((cause: unknown) => {
      const reason = errorText(cause)
      const advice = 'SLIPWAY_DOCKER_SOCKET names its socket; SLIPWAY_BACKEND=process needs no engine.'
      throw new Error(`Docker sandboxes cannot be started. ${reason}. ${advice}`, { cause })
    })
    return backend
  }
  if (name === 'kubernetes' || name === 'agent-sandbox') {
    const { KubernetesBackend } = await import('../backends/kubernetes/kubernetes-backend.ts')
    const backend = new KubernetesBackend({
      name,
      kubeconfig: config.kubeconfig,
      namespace: config.kubernetesNamespace,
      reach: config.kubernetesReach,
      internalUrl: config.internalUrl,
      directory: join(directory, 'tunnels'),
      ledgerId,
      log,
      defaultImage: config.image,
    })
    // A missing library, custom resource or kubeconfig is said now; an API server may come later.
    await backend.isolation()
    return backend
  }
  throw new Error(
    `A sandbox spec names the backend ${name}; there are process, docker, kubernetes and agent-sandbox`,
  )
}

/** Users must not be run together as ordinary processes unless the operator says so. */
export async function assertIsolated(
  backend: Pick<Backend, 'isolation'>,
  { isolation }: Pick<Config, 'isolation'>,
  { isIsolationOptional }: Pick<BackendDeps, 'isIsolationOptional'>,
): Promise<void> {
  if (isolation !== 'auto' || isIsolationOptional === true) return
  const { kind, notes } = await backend.isolation()
  if (kind !== 'none') return
  throw new Error(
    `Sandboxes would not be isolated from each other and from this machine. ${notes[0]} Install bubblewrap, set SLIPWAY_BACKEND=docker, or set SLIPWAY_ISOLATION=none to accept that.`,
  )
}

/** Whether sandboxes may share the network of the machine without being asked to. */
function isNetworkOptional({ isolation, network }: Config, { isIsolationOptional }: BackendDeps): boolean {
  return isolation === 'none' || (network === 'auto' && isIsolationOptional === true)
}

/** Sandboxes must not reach the machine and each other unless the operator says so. */
async function assertNetworks(backend: ProcessBackend, config: Config, deps: BackendDeps): Promise<void> {
  const failure = await backend.networkFailure()
  const isPrivate = config.specs.some(
    (spec) => spec.backend === backend.name && (spec.network ?? 'private') === 'private',
  )
  if (failure === '' || !isPrivate || isNetworkOptional(config, deps)) return
  throw new Error(
    `Sandboxes would share the network of this machine, its loopback ports and metadata services included: ${failure} Install passt, or set SLIPWAY_SANDBOX_NETWORK=shared to accept that, or SLIPWAY_SANDBOX_NETWORK=none to give them no network.`,
  )
}
