import type { ContainerCreateOptions, HostConfig } from 'dockerode'
import type { Order } from '../backend.ts'
import { labelsOf } from './labels.ts'
import { agentData, home, userId, volumeTargets, workingDirOf } from './sandbox-paths.ts'

/** The ports inside, by the names that the API gives them. */
export const ports: Readonly<Record<string, number>> = { AGENT_SERVER: 8000, WORKER_1: 8011, WORKER_2: 8012 }

/** Engines that may not raise limits refuse more. */
const mostOpenFiles = 20_000
const mebibyte = 2 ** 20

/** What an engine can do, and where a sandbox stands in it. */
export interface Place {
  readonly ledgerId: string
  readonly image: string
  readonly name: string
  readonly volume: string
  readonly network: string
  /** What a sandbox finds this machine by; undefined: the engine sees to it. */
  readonly hostAddress: string | undefined
  readonly publishHost: string
  readonly hasInit: boolean
  readonly can: Can
}

/** The limits that an engine enforces. */
export interface Can {
  readonly memory: boolean
  readonly processes: boolean
  readonly cpus: boolean
  /** How many there are. */
  readonly cores: number
  /** An engine without root cannot give limits above its user's. */
  readonly isRootless: boolean
}

/** The container that an order comes to. It is nobody inside, and can become nobody else: no capabilities, no new privileges. */
export function containerOf(order: Order, place: Place): ContainerCreateOptions {
  const [program, ...rest] = order.command
  return {
    Image: place.image,
    Hostname: order.id,
    User: `${userId}:${userId}`,
    Labels: labelsOf(place.ledgerId, order),
    Env: Object.entries({ HOME: home, ...order.env }).map(([name, value]) => `${name}=${value}`),
    ...(program === undefined ? {} : { Entrypoint: [program], Cmd: [...rest, ...whereToListen] }),
    WorkingDir: workingDirOf(order),
    ExposedPorts: Object.fromEntries(Object.values(ports).map((port) => [`${port}/tcp`, {}])),
    // Whether it answers is asked by the control plane, also of images that look at themselves.
    Healthcheck: { Test: ['NONE'] },
    StopTimeout: 5,
    HostConfig: hostConfig(order, place),
  }
}

const whereToListen = ['--host', '0.0.0.0', '--port', String(ports.AGENT_SERVER), '--data', agentData]

function hostConfig(order: Order, place: Place): HostConfig {
  return {
    NetworkMode: place.network,
    ExtraHosts: place.hostAddress === undefined ? [] : [`host.docker.internal:${place.hostAddress}`],
    // An empty host port: the engine chooses one that is free.
    PortBindings: Object.fromEntries(
      Object.values(ports).map((port) => [`${port}/tcp`, [{ HostIp: place.publishHost, HostPort: '' }]]),
    ),
    Mounts: volumeTargets(order).map((Target) => ({ Type: 'volume', Source: place.volume, Target })),
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges'],
    ReadonlyRootfs: true,
    Tmpfs: {
      '/tmp': 'rw,exec,nosuid,nodev,size=512m,mode=1777',
      '/run': 'rw,noexec,nosuid,nodev,size=16m',
    },
    ShmSize: 64 * mebibyte,
    IpcMode: 'private',
    Init: place.hasInit,
    RestartPolicy: { Name: 'no' },
    LogConfig: { Type: 'json-file', Config: { 'max-size': '1m', 'max-file': '2' } },
    ...limits(order, place.can),
  }
}

function limits({ resources }: Order, can: Can): HostConfig {
  const { memoryBytes, maxProcesses, cpus, maxOpenFiles } = resources
  return {
    // With as much swap as memory there is no swap.
    ...(memoryBytes !== undefined && can.memory ? { Memory: memoryBytes, MemorySwap: memoryBytes } : {}),
    ...(maxProcesses !== undefined && can.processes ? { PidsLimit: maxProcesses } : {}),
    ...(cpus !== undefined && can.cpus
      ? { NanoCpus: Math.round(Math.min(Math.max(cpus, 0.01), can.cores) * 1e9) }
      : {}),
    ...(maxOpenFiles === undefined ? {} : { Ulimits: ulimits(maxOpenFiles, can) }),
  }
}

/** Podman asks for a million processes beside any limit of ours, which an engine that may not raise limits cannot give. */
function ulimits(maxOpenFiles: number, can: Can) {
  const openFiles = Math.min(maxOpenFiles, mostOpenFiles)
  return [
    { Name: 'nofile', Soft: openFiles, Hard: openFiles },
    ...(can.isRootless ? [] : [{ Name: 'nproc', Soft: 20_000, Hard: 20_000 }]),
  ]
}
