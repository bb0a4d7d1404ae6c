import type { LogFunction } from '@slipway/protocol'
import { Semaphore } from '@slipway/shared/async'
import { type Clock, systemClock } from '@slipway/shared/time'
import type { Cipher } from '@slipway/storage'
import type { ControlPlaneStore, SandboxRow } from '@slipway/storage/control-plane'
import type { Backend } from '../../backends/backend.ts'
import type { AgentTarget } from '../../network/agent-target.ts'
import type { AgentLog } from '../../network/caught-up.ts'
import type { Expose } from '../../network/exposed-urls.ts'
import { sandboxFetch } from '../../network/sandbox-fetch.ts'
import { AgentInstances } from './agent-instances.ts'
import type { Lifetimes } from './lifetimes.ts'
import type { SandboxEnvironment } from './sandbox-config.ts'
import { sandboxLogs } from './sandbox-log.ts'
import { type OnStep, SandboxRepository } from './sandbox-repository.ts'
import type { SandboxSpecs } from './specs.ts'

/** Lifetimes are for specs that set none. */
export interface SandboxesOptions extends Lifetimes {
  readonly controlPlane: Pick<ControlPlaneStore, 'sandboxes' | 'leases' | 'users' | 'sandboxEvents'>
  readonly cipher: Pick<Cipher, 'seal' | 'open'>
  readonly backends: readonly Backend[]
  readonly specs: SandboxSpecs
  readonly log: LogFunction
  /** Address of this server for callers, possibly with a path; read when it is needed. */
  readonly publicUrl: () => string
  /** Port on which this server listens for its sandboxes. */
  readonly hostPort: () => number
  readonly expose: Expose
  /** The address without a path of an agent server on a Unix socket; undefined: callers use the relay. */
  readonly openPort?: ((id: string) => Promise<string | undefined>) | undefined
  /** Origins of web pages that may call the agent servers. */
  readonly allowedOrigins: readonly string[]
  /** Agent servers load what repositories bring without a question; false by default. */
  readonly trustsRepositories?: boolean
  /** Concurrently running sandboxes of one owner without their own limit; 0: not limited. */
  readonly maxSandboxes: number
  /** Whether that limit counts at resumes too; limits of users always do. True unless given. */
  readonly limitsResumes?: boolean
  /** At that limit a start is refused, or an idle sandbox is paused for it. */
  readonly maxSandboxesPolicy: 'refuse' | 'pause_idle'
  /** Time until an agent server must answer. */
  readonly startMs: number
  /** Between two comparisons of all sandboxes. */
  readonly reconcileMs: number
  /** How long `pause` and `resume` wait; 30 s by default. */
  readonly answerMs?: number
  /** First and longest delay between two looks at a sandbox that is starting; 20 to 500 ms by default. */
  readonly pollMs?: readonly [number, number]
  /** First and longest delay after a failure of a backend; 1 to 60 s by default. */
  readonly retryMs?: readonly [number, number]
  /** Idle time after which a sandbox may be paused for another one, in seconds; 10 by default. */
  readonly evictIdleSeconds?: number
  /** Free bytes of a directory's file system below which the largest sandbox is paused; 0: never. */
  readonly diskReserve?: {
    readonly directory: string
    readonly bytes: number
    /**
     * Directories of backends on other file systems, by their names: watched for limits, without a reserve.
     */
    readonly otherDisks?: ReadonlyMap<string, string>
  }
  /** Bytes on that file system above which a sandbox is paused whose spec has no limit; 0: none. */
  readonly maxDiskBytes?: number
  /** Of the files that a fork copies; 0: not limited, as by default. */
  readonly maxForkBytes?: number
  /** The spec of a sandbox of an organisation. A Problem `forbidden` for one that it does not allow. */
  readonly chooseSpec?: (org: string | undefined, spec: string | undefined) => Promise<string | undefined>
  readonly fetch?: typeof globalThis.fetch
  /** Texts that are secrets of an owner: its sandboxes may print them. */
  readonly findSecrets?: ((owner: string | null) => Promise<readonly string[]>) | undefined
  /** See `EventIngest.hasAll`; without it sandboxes that have run are never deleted because of their age. */
  readonly hasAllEvents?: (sandbox: string, log: AgentLog) => Promise<boolean>
  /** That of the machine unless given. */
  readonly clock?: Clock
  readonly onStep?: OnStep | undefined
  /**
   * Called with a claimed sandbox whose agent server has begun to answer, before it becomes RUNNING. Returns
   * what its detail then says. It may be repeated; a failure is only logged.
   */
  readonly onReady?:
    | ((row: SandboxRow, target: AgentTarget, signal: AbortSignal) => Promise<string | undefined>)
    | undefined
  /** Called after a sandbox has become RUNNING, and for each that is when reconciling starts. */
  readonly onRunning?: (id: string) => void
}

export type SandboxContext = ReturnType<typeof createContext>

/** What the parts of the sandboxes share: options with defaults, rows and sealed secrets. */
export function createContext(options: SandboxesOptions) {
  const { controlPlane, specs, hostPort, clock = systemClock } = options
  const backends = new Map(options.backends.map((backend) => [backend.name, backend]))
  const stopping = new AbortController()
  const getLifetimes = (specId: string): Lifetimes => {
    const spec = specs.find(specId)
    return {
      idleSeconds: spec?.idle_seconds ?? options.idleSeconds,
      maxSessionSeconds: spec?.max_session_seconds ?? options.maxSessionSeconds,
      deleteAfterSeconds: spec?.delete_after_seconds ?? options.deleteAfterSeconds,
    }
  }
  return {
    answerMs: 30_000,
    pollMs: [20, 500] as const,
    retryMs: [1_000, 60_000] as const,
    evictIdleSeconds: 10,
    fetch: sandboxFetch,
    ...options,
    clock,
    backends,
    rows: controlPlane.sandboxes,
    users: controlPlane.users,
    ...sandboxLogs({ ...options, clock, sandboxEvents: controlPlane.sandboxEvents }),
    leases: controlPlane.leases,
    repository: new SandboxRepository(controlPlane, clock, options),
    instances: new AgentInstances(clock),
    /** Starts may take minutes: the other calls do not wait for them. */
    semaphores: { start: new Semaphore(8), change: new Semaphore(8), look: new Semaphore(16) },
    stopping,
    /** Aborted when the server stops. */
    signal: stopping.signal,
    /** What decides about the sandboxes of an owner follows each other, in all servers. */
    forOwner: <T>(owner: string, work: () => Promise<T>): Promise<T> =>
      controlPlane.leases.runExclusive(`owner ${owner}`, work),
    getLifetimes,
    getEnvironment({ spec, backend }: Pick<SandboxRow, 'spec' | 'backend'>): SandboxEnvironment {
      const url = backends.get(backend)?.hostUrl(hostPort(), specs.find(spec)?.network ?? 'private')
      return {
        webhooks: url === undefined ? undefined : `${url}/api/v1/webhooks`,
        origins: options.allowedOrigins,
        idleSeconds: getLifetimes(spec).idleSeconds,
        trustsRepositories: options.trustsRepositories ?? false,
      }
    },
  }
}
