import type { ContainerCreateOptions, HostConfig } from 'dockerode'
import type { SandboxConfig } from '../backend.ts'
import { sandboxLabels } from './labels.ts'
import { agentData, homeDirectory, userId, volumeTargets, workingDirectory } from './sandbox-paths.ts'

/** The ports inside, by the names that the API gives them. */
export const containerPorts: Readonly<Record<string, number>> = {
  AGENT_SERVER: 8000,
  WORKER_1: 8011,
  WORKER_2: 8012,
}

/** Engines that may not raise limits refuse more. */
const maxOpenFilesLimit = 20_000
const mebibyte = 2 ** 20

/** What an engine can do, and where a sandbox stands in it. */
export interface ContainerContext {
  readonly ledgerId: string
  readonly image: string
  readonly name: string
  readonly volume: string
  readonly network: string
  /** What a sandbox finds this machine by; undefined: the engine sees to it. */
  readonly hostAddress: string | undefined
  readonly publishHost: string
  readonly hasInit: boolean
  readonly capabilities: EngineCapabilities
}

/** The limits that an engine enforces. */
export interface EngineCapabilities {
  readonly memory: boolean
  readonly processes: boolean
  readonly cpus: boolean
  /** How many there are. */
  readonly cores: number
  /** An engine without root cannot give limits above its user's. */
  readonly isRootless: boolean
}

/** The container that an order comes to. It is nobody inside, and can become nobody else: no capabilities, no new privileges. */
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
    ExposedPorts: Object.fromEntries(Object.values(containerPorts).map((port) => [`${port}/tcp`, {}])),
    // Whether it answers is asked by the control plane, also of images that look at themselves.
    Healthcheck: { Test: ['NONE'] },
    StopTimeout: 5,
    HostConfig: hostConfig(config, context),
  }
}

const listenArguments = [
  '--host',
  '0.0.0.0',
  '--port',
  String(containerPorts.AGENT_SERVER),
  '--data',
  agentData,
]

function hostConfig(config: SandboxConfig, context: ContainerContext): HostConfig {
  return {
    NetworkMode: context.network,
    ExtraHosts: context.hostAddress === undefined ? [] : [`host.docker.internal:${context.hostAddress}`],
    // An empty host port: the engine chooses one that is free.
    PortBindings: Object.fromEntries(
      Object.values(containerPorts).map((port) => [
        `${port}/tcp`,
        [{ HostIp: context.publishHost, HostPort: '' }],
      ]),
    ),
    Mounts: volumeTargets(config).map((Target) => ({ Type: 'volume', Source: context.volume, Target })),
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

function resourceLimits({ resources }: SandboxConfig, capabilities: EngineCapabilities): HostConfig {
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

/** Podman asks for a million processes beside any limit of ours, which an engine that may not raise limits cannot give. */
function ulimits(maxOpenFiles: number, capabilities: EngineCapabilities) {
  const openFiles = Math.min(maxOpenFiles, maxOpenFilesLimit)
  return [
    { Name: 'nofile', Soft: openFiles, Hard: openFiles },
    ...(capabilities.isRootless ? [] : [{ Name: 'nproc', Soft: 20_000, Hard: 20_000 }]),
  ]
}
