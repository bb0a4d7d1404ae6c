import type { SandboxSpec } from '@slipway/protocol'

/** Limits of a sandbox. An absent one does not apply. */
export interface Resources {
  readonly memoryBytes?: number | undefined
  /** Processes and threads together. */
  readonly maxProcesses?: number | undefined
  readonly cpus?: number | undefined
  /** Of all its files. */
  readonly diskBytes?: number | undefined
  /** Of one process. */
  readonly maxOpenFiles?: number | undefined
}

/**
 * - `private`: its own network with a way out, but not to this machine or to other sandboxes
 * - `shared`: the network of this machine, or one that sandboxes share
 * - `none`: no network
 */
export type SandboxNetworkMode = 'private' | 'shared' | 'none'

/** All that a backend needs to create a sandbox. Stored with it; a resume gets the same one. */
export interface SandboxConfig {
  /** 1 to 63 lower-case letters, digits and hyphens, a letter or digit at both ends. */
  readonly id: string
  /** Ignored by a backend without images. */
  readonly image: string | null
  /** Program and arguments, to which the address to listen on is appended; empty: our agent server. */
  readonly command: readonly string[]
  /** Complete, with secrets, which are visible from the outside. */
  readonly env: Readonly<Record<string, string>>
  /** As seen from inside; empty: the backend's default. */
  readonly workingDir: string
  readonly resources: Resources
  readonly network: SandboxNetworkMode
  /** Loopback ports of this machine that it reaches at its own loopback address, in a private network. */
  readonly hostPorts?: readonly number[] | undefined
  /** Of the backends of a cluster; ignored by others. */
  readonly kubernetes?: SandboxSpec['kubernetes'] | undefined
}

/**
 * The observed state of a sandbox:
 *
 * - `starting`: it is being created, or its state is not known yet
 * - `running`: its processes run; they may not answer yet
 * - `paused`: its processes are frozen, or were stopped by `pause`
 * - `stopped`: its processes have ended on their own
 * - `broken`: it cannot be created or started; see `detail`
 */
export interface ObservedSandbox {
  readonly id: string
  readonly state: 'starting' | 'running' | 'paused' | 'stopped' | 'broken'
  /** Differs for each start of its processes. */
  readonly epoch: string
  /** By name (`AGENT_SERVER`, `WORKER_1`), as `http://127.0.0.1:4711` or `http+unix://%2Frun%2Fx.sock`. */
  readonly addresses: Readonly<Record<string, string>>
  /** As seen from inside; absolute. */
  readonly workingDir?: string | undefined
  /** Why it stopped, is broken or does not start yet, with the end of its output. May contain its secrets. */
  readonly detail?: string | undefined
}

/** What the processes of a sandbox use. */
export interface SandboxUse {
  readonly memoryBytes: number
  /** Processor time since they began, that of ended children included where the host still counts it. */
  readonly cpuSeconds: number
  readonly processes: number
}

/** What isolates sandboxes from the host and each other. Never more than is true. */
export interface Isolation {
  /** `namespaces`: own view of files, processes and users. */
  readonly kind: 'none' | 'namespaces' | 'container'
  readonly enforced: readonly (keyof Resources)[]
  /** What is not isolated or limited, and what to install for it. */
  readonly notes: readonly string[]
}

/**
 * Creates sandboxes. Its only state is objects with the label of a ledger, which a new process finds by
 * `list`.
 *
 * Every call is idempotent and may be interrupted by a crash: a repeated call continues it. Calls for one
 * sandbox do not overlap. A temporary failure (an engine that does not answer) rejects with an Error; `list`
 * reports one of the sandbox itself as `broken` or `stopped`.
 */
export interface Backend {
  /** `process`, `docker`, `kubernetes` or `agent-sandbox`; stored in rows. */
  readonly name: string
  /** Each start of its processes applies the config, also a resume; otherwise only the first. */
  readonly appliesConfigOnResume?: boolean
  /** How sandboxes of this network reach a port here, also `http+unix://…`; undefined: not at all. */
  hostUrl(port: number, network: SandboxConfig['network']): string | undefined
  /** An address that only sandboxes and this machine reach. Absent when sandboxes reach loopback. */
  gatewayAddress?(): Promise<string | undefined>
  isolation(): Promise<Isolation>
  /** Creates a sandbox and starts its processes, unless they run. Resolves when `list` shows it. */
  start(config: SandboxConfig): Promise<void>
  /** All sandboxes or one, also while they are created or removed. */
  list(id?: string): Promise<readonly ObservedSandbox[]>
  /** Calls back once when the agent server of a starting sandbox may have begun to listen. */
  watchStart?(sandbox: ObservedSandbox, onChange: () => void): Disposable
  /** Calls back with the id of each sandbox that changes on its own. Absent where only `list` shows it. */
  watchChanges?(onChange: (id: string) => void): Disposable
  /** Freezes its processes; files and, if possible, memory stay. Nothing when it does not run. */
  pause(id: string): Promise<void>
  /** Ends its processes; `resume` starts them again on its files. Nothing when they do not run. */
  stop(id: string): Promise<void>
  /** Continues its processes, or starts them again. */
  resume(config: SandboxConfig): Promise<void>
  /** A directory on the file system of the sandboxes, when that may differ from that of the server. */
  diskDirectory?(): Promise<string | undefined>
  /**
   * Bytes that it keeps on the file system of the sandboxes, with deleted files that its processes hold open.
   * Absent when they are kept elsewhere.
   */
  diskUsage?(id: string): Promise<number | undefined>
  /**
   * Freezes its processes, and measures what it keeps as `diskUsage`. More than the limit: it is paused then;
   * otherwise its processes continue, and `list` never shows it as paused. Undefined when it does not run.
   */
  pauseAbove?(id: string, limitBytes: number): Promise<number | undefined>
  /** What its processes use, also while they are frozen; undefined without any. Absent where it is unknown. */
  measureUse?(id: string): Promise<SandboxUse | undefined>
  /**
   * Gives a running sandbox the files of another running one: workspace and home directory, not what its
   * agent server keeps. The other one is frozen meanwhile, and `list` shows it as running. A `FilesError`
   * when they cannot be copied, and above `maxBytes` on disk (0: no limit). What it has written by then
   * stays.
   */
  copyFiles?(from: string, to: string, maxBytes: number): Promise<CopiedFiles>
  /**
   * The end of what its processes printed, at most `maxBytes`, as plain text; also of ended ones. Empty
   * for what is missing. May contain its secrets.
   */
  readLog(id: string, maxBytes: number): Promise<string>
  /** Ends its processes and removes all of its objects. */
  remove(id: string): Promise<void>
}

export interface CopiedFiles {
  /** In microseconds, by the clock of the agent server: the files are those of this moment. */
  readonly takenAt: number
}

/** Why files of a sandbox cannot be copied; for its owner. */
export class FilesError extends Error {
  override readonly name = 'FilesError'
}
