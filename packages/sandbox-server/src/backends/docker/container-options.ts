import type { ContainerCreateOptions, HostConfig } from 'dockerode'
import type { SandboxConfig } from '../backend.ts'
import type { EngineInfo } from './engine-info.ts'
import { sandboxLabels } from './labels.ts'
import { agentData, homeDirectory, userId, volumeTargets, workingDirectory } from './sandbox-paths.ts'

/** The ports inside, by their names of the API. */
export const containerPorts: Readonly<Record<string, number>> = {
  AGENT_SERVER: 8000,
  WORKER_1: 8011,
  WORKER_2: 8012,
}

/** Engines that cannot raise limits refuse more. */
const maxOpenFilesLimit = 20_000
const mebibyte = 2 ** 20

export interface ContainerContext {
  readonly ledgerId: string
  readonly image: string
  /** Of the container and its volume. */
  readonly name: string
  readonly network: string
  /** Of this machine, for sandboxes; undefined: the engine sets it. */
  readonly hostAddress: string | undefined
  readonly hasInit: boolean
  readonly capabilities: EngineInfo['capabilities']
}

/** Options of a container that runs as an unprivileged user without capabilities. */
export function containerOptions(config: SandboxConfig, context: ContainerContext): ContainerCreateOptions {
  const [program, ...rest] = config.command
  return {
    Image: context.image,
    Hostname: config.id,
    User: `${userId}:${userId}`,
    Labels: sandboxLabels(context.ledgerId, config),
    Env: Object.entries({ HOME: homeDirectory, ...config.env }).map(([name, value]) => `${name}=${value}`),
    ...(program === undefined ? {} : { Entrypoint: [program], Cmd: [...rest, ...listenArguments] }),
    WorkingDir: workingDirectory(config),
    ExposedPorts: byPort({}),
    // The control plane checks the health.
    Healthcheck: { Test: ['NONE'] },
    StopTimeout: 5,
    HostConfig: hostConfig(config, context),
  }
}

const listenArguments = `--host 0.0.0.0 --port ${containerPorts.AGENT_SERVER} --data ${agentData}`.split(' ')

function byPort<T>(value: T): Record<string, T> {
  return Object.fromEntries(Object.values(containerPorts).map((port) => [`${port}/tcp`, value]))
}

function hostConfig(config: SandboxConfig, context: ContainerContext): HostConfig {
  return {
    NetworkMode: context.network,
    ExtraHosts: context.hostAddress === undefined ? [] : [`host.docker.internal:${context.hostAddress}`],
    // An empty host port: the engine chooses one that is free.
    PortBindings: byPort([{ HostIp: '127.0.0.1', HostPort: '' }]),
    Mounts: volumeTargets(config).map((Target) => ({ Type: 'volume', Source: context.name, Target })),
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges'],
    ReadonlyRootfs: true,
    Tmpfs: {
      '/tmp': 'rw,exec,nosuid,nodev,size=512m,mode=1777',
      '/run': 'rw,noexec,nosuid,nodev,size=16m',
    },
    ShmSize: 64 * mebibyte,
    IpcMode: 'private',
    Init: context.hasInit,
    RestartPolicy: { Name: 'no' },
    LogConfig: { Type: 'json-file', Config: { 'max-size': '1m', 'max-file': '2' } },
    ...resourceLimits(config, context.capabilities),
  }
}

function resourceLimits({ resources }: SandboxConfig, capabilities: EngineInfo['capabilities']): HostConfig {
  const { memoryBytes, maxProcesses, cpus, maxOpenFiles } = resources
  return {
    // With as much swap as memory there is no swap.
    ...(memoryBytes !== undefined && capabilities.memory
      ? { Memory: memoryBytes, MemorySwap: memoryBytes }
      : {}),
    ...(maxProcesses !== undefined && capabilities.processes ? { PidsLimit: maxProcesses } : {}),
    ...(cpus !== undefined && capabilities.cpus
      ? { NanoCpus: Math.round(Math.min(Math.max(cpus, 0.01), capabilities.cores) * 1e9) }
      : {}),
    ...(maxOpenFiles === undefined ? {} : { Ulimits: ulimits(maxOpenFiles, capabilities) }),
  }
}

/** Without `nproc` Podman requests a million processes, which an engine without root refuses. */
function ulimits(maxOpenFiles: number, capabilities: EngineInfo['capabilities']) {
  const openFiles = Math.min(maxOpenFiles, maxOpenFilesLimit)
  return [
    { Name: 'nofile', Soft: openFiles, Hard: openFiles },
    ...(capabilities.isRootless ? [] : [{ Name: 'nproc', Soft: 20_000, Hard: 20_000 }]),
  ]
}
