/** What a sandbox may use. A member that is absent is not limited. */
export interface Resources {
  readonly memoryBytes?: number
  /** Processes and threads together. */
  readonly maxProcesses?: number
  /** Cores, also parts of one. */
  readonly cpus?: number
  /** Of everything that it keeps. */
  readonly diskBytes?: number
  /** Open files of one process. */
  readonly maxOpenFiles?: number
}

/** Everything that a backend needs to know to make a sandbox. It is kept in the ledger, and a resume gets the same one again. */
export interface SandboxConfig {
  /** Unique in the ledger: 1 to 63 lower-case letters, digits and hyphens, a letter or digit at both ends. */
  readonly id: string
  /** What the sandbox runs, where the backend has images; ignored by one that has none. */
  readonly image: string | null
  /** Program and arguments; empty: the backend's (or the image's) own agent server. The backend appends where to listen. */
  readonly command: readonly string[]
  /** All of it, secrets included: whoever may look at the sandbox from outside may see it. */
  readonly env: Readonly<Record<string, string>>
  /** Where the agent works, as seen from inside; empty: the backend's own place. */
  readonly workingDir: string
  readonly resources: Resources
  /** `none`: no network at all; the agent server is then reached by other means than a port. */
  readonly network: 'shared' | 'none'
}

/**
 * What is really there.
 * - `starting`: it is being made, or it is not known yet whether it runs
 * - `running`: its processes run (whether they answer is found out by asking them)
 * - `paused`: all of its processes stand still, or it was stopped by `pause` and keeps its files
 * - `stopped`: its processes have ended by themselves, its files are there
 * - `broken`: it cannot be made or started; `detail` says why
 */
export interface ObservedSandbox {
  readonly id: string
  readonly state: 'starting' | 'running' | 'paused' | 'stopped' | 'broken'
  /** Another text after each new start of its processes: what was known of the ones before holds no more. */
  readonly epoch: string
  /**
   * Where it is reached from this machine, by name: `AGENT_SERVER`, and `WORKER_1`, `WORKER_2` where there are any. Base
   * addresses without a slash at the end: `http://127.0.0.1:4711`, or `http+unix://%2Frun%2Fx.sock` for a Unix socket (its path
   * percent-encoded in the place of the host). Empty while it has none.
   */
  readonly addresses: Readonly<Record<string, string>>
  /** Where its agent works, as seen from inside; absolute. */
  readonly workingDir?: string
  /** For people: why it stopped or is broken, with the end of what it printed. May hold secrets of the sandbox. */
  readonly detail?: string
}

/** How far apart a backend keeps its sandboxes from the host and each other: what the API tells, so it is never more than true. */
export interface Isolation {
  /** `none`: a process like any other; `namespaces`: own view of files, processes and users; `container`. */
  readonly kind: 'none' | 'namespaces' | 'container'
  /** The members of `Resources` that are really enforced here. */
  readonly enforced: readonly (keyof Resources)[]
  /** For people: what is not isolated or limited, and what to install to have it. */
  readonly notes: readonly string[]
}

/**
 * A place where sandboxes are made. All of its objects carry the label of one ledger, so that those of others are never seen
 * nor touched; it keeps no state of its own besides them, so that a new process finds everything by `list`.
 *
 * Every verb is idempotent and may be cut off at any point by the end of the process: called again it goes on where it
 * was. Verbs of one sandbox are not called at the same time, those of different ones are. A failure that may pass (an engine
 * that does not answer) rejects with an Error; one of the sandbox itself is told by `list` as `broken` or `stopped`.
 */
export interface Backend {
  /** `process`, `docker`, ...: stands in the ledger. */
  readonly name: string
  /**
   * How sandboxes of this backend reach a server of this machine that listens on a port, by the network that they were ordered
   * with; `http+unix://...` (as in `Seen.addresses`) for a Unix socket that they see. Undefined when they cannot.
   */
  hostUrl(port: number, network: SandboxConfig['network']): string | undefined
  /**
   * An address of this machine that only sandboxes and this machine reach, for a listener of the control plane; undefined while
   * there is none. Backends whose sandboxes reach loopback have no such method.
   */
  gatewayAddress?(): Promise<string | undefined>
  isolation(): Promise<Isolation>
  /**
   * Makes the sandbox and starts its processes, or starts them again when they have ended; its files stay. Resolves as soon as
   * `list` shows it; whether it answers is not waited for.
   */
  start(config: SandboxConfig): Promise<void>
  /** What is there, of one sandbox or of all. What is half made or half removed is there too. */
  list(id?: string): Promise<readonly ObservedSandbox[]>
  /** Stops time for all of its processes; files and, where the backend can, memory stay. Nothing when it does not run. */
  pause(id: string): Promise<void>
  /** Lets time go on, or starts its processes again when they are gone. */
  resume(config: SandboxConfig): Promise<void>
  /** Ends its processes and removes everything of it. */
  remove(id: string): Promise<void>
}
