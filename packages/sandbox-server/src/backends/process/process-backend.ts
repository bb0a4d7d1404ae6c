import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { isAbsolute, join, resolve } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import type { Backend, Isolation, ObservedSandbox, SandboxConfig } from '../backend.ts'
import { socketPathInside } from './bubblewrap/arguments.ts'
import { cgroupPaths, createCgroups, removeCgroups } from './cgroups/sandbox-cgroups.ts'
import { CodeCache } from './code-cache.ts'
import { unmountAllBelow } from './host/disk-image.ts'
import { findFreePort, isFree } from './host/ports.ts'
import { readBootId } from './host/processes.ts'
import { runProgram } from './host/run-program.ts'
import { detectHostCapabilities, type HostCapabilities, type IsolationMode } from './host-capabilities.ts'
import { inspectSandbox } from './inspect.ts'
import {
  buildLaunch,
  type PreparationDeps,
  prepareFiles,
  resolveWorkingDir,
  validateConfig,
} from './prepare-sandbox.ts'
import { hostUserId, idPattern, type SandboxPaths, sandboxPaths, socketLinkName } from './sandbox-paths.ts'
import {
  isPaused,
  killAll,
  listRootFiles,
  listSupervisors,
  pauseAll,
  resumeAll,
} from './sandbox-processes.ts'
import { type SandboxRecord, SandboxRecords } from './sandbox-record.ts'
import { launchSupervisor, readExit } from './supervisor.ts'

export interface ProcessBackendOptions {
  /** Of the sandboxes, absolute; made when it is not there. Ledgers may share one. */
  readonly directory: string
  /** 16 characters or more of a random text: sandboxes carry it as their label. */
  readonly ledgerId: string
  /** Program (absolute) and arguments of our own agent server; where to listen is appended. */
  readonly agentCommand: readonly string[]
  /** Files and folders of that program, absolute: sandboxes see them where they are and cannot change them. */
  readonly readable: readonly string[]
  /** Folders of the server that no sandbox may see though they lie in something readable; `directory` is one by itself. */
  readonly inaccessible?: readonly string[]
  readonly log: LogFunction
  /** `auto`: bubblewrap where it works. `bubblewrap`: without it every start is broken. `none`: plain processes. */
  readonly isolate?: IsolationMode
  /** `auto`: control groups and file systems of their own, where they can be made. `none`: neither, only the limits of a process. */
  readonly limit?: 'auto' | 'none'
  /**
   * Unix socket of the control plane, for sandboxes without a network; absolute. It is the only thing in its folder, which they
   * see; whoever listens on it lets everybody connect (mode 0666) and asks for a key.
   */
  readonly hostSocket?: string
  /** Folder of this server alone, absolute, in which our own agent server is kept compiled; without it each start compiles it. */
  readonly codeDirectory?: string
}

/** How long after a start a port that somebody else has taken is looked for as the reason of an end. */
const portRetryWindowMs = 30_000
const maxPortAttempts = 5

/**
 * Sandboxes as processes of this machine: behind bubblewrap's walls and in control groups where the host has them. Each has a
 * folder with its record, its output and its files, and a small shell beside it that lives on when the server does not; what is
 * known about a sandbox is read from there each time.
 */
export class ProcessBackend implements Backend {
  readonly name = 'process'
  readonly #options: ProcessBackendOptions
  readonly #deps: PreparationDeps
  readonly #records: SandboxRecords
  readonly #mutex = new KeyedMutex()
  readonly #starting = new Set<string>()
  readonly #ports = new Map<string, number>()
  readonly #code: CodeCache | undefined
  #capabilities: Promise<HostCapabilities> | undefined

  constructor(options: ProcessBackendOptions) {
    const { directory, agentCommand, readable, inaccessible = [], hostSocket, codeDirectory } = options
    const more = [hostSocket, codeDirectory].filter((path) => path !== undefined)
    const paths = [directory, ...readable, ...inaccessible, ...more]
    const relative = paths.find((path) => !isAbsolute(path))
    if (relative !== undefined) throw new Error(`${relative} is not an absolute path`)
    this.#options = options
    this.#code =
      codeDirectory === undefined
        ? undefined
        : new CodeCache({ ...options, directory: codeDirectory, inaccessible: [directory, ...inaccessible] })
    const codeFolder = () => this.#code?.folder
    this.#deps = {
      directory: resolve(directory),
      agentCommand,
      readable,
      inaccessible,
      hostSocket,
      codeFolder,
    }
    this.#records = new SandboxRecords(this.#deps.directory, options.ledgerId)
  }

  hostUrl(port: number, network: SandboxConfig['network']): string | undefined {
    if (network === 'shared') return `http://127.0.0.1:${port}`
    const { hostSocket } = this.#options
    return hostSocket === undefined
      ? undefined
      : `http+unix://${encodeURIComponent(socketPathInside(hostSocket))}`
  }

  async isolation(): Promise<Isolation> {
    return (await this.#getCapabilities()).isolation
  }

  async start(config: SandboxConfig): Promise<void> {
    checkId(config.id)
    await this.#runExclusive(config.id, async () => {
      await this.#getCapabilities()
      const record = await this.#records.getOrCreate(config.id)
      if (!(await this.#isRunning(record))) await this.#launch(config, record, 1)
    })
  }

  async list(id?: string): Promise<readonly ObservedSandbox[]> {
    const records = id === undefined ? await this.#records.list() : [await this.#records.read(id)]
    const found = records.filter((each) => each !== undefined)
    return Promise.all(
      found.map((record) =>
        inspectSandbox(
          this.#records.directory,
          this.#paths(record.id),
          record,
          this.#starting.has(record.id),
        ),
      ),
    )
  }

  async pause(id: string): Promise<void> {
    await this.#runExclusive(id, async () => {
      const record = await this.#records.read(id)
      if (record === undefined || !(await this.#isRunning(record))) return
      const paths = this.#paths(id)
      if (!(await isPaused(paths, record))) await pauseAll(paths, record)
    })
  }

  async resume(config: SandboxConfig): Promise<void> {
    checkId(config.id)
    await this.#runExclusive(config.id, async () => {
      await this.#getCapabilities()
      const record = await this.#records.getOrCreate(config.id)
      if (!(await this.#isRunning(record))) return this.#launch(config, record, 1)
      const paths = this.#paths(config.id)
      if (await isPaused(paths, record)) await resumeAll(paths, record)
    })
  }

  async remove(id: string): Promise<void> {
    await this.#runExclusive(id, async () => {
      const found = await this.#records.read(id)
      if (found === undefined) return
      await this.#getCapabilities()
      const paths = this.#paths(id)
      const record = await this.#records.write({ ...found, isRemoving: true, epoch: '' })
      await killAll(paths, record)
      if (!(await unmountAllBelow(paths.root))) throw new Error(`${paths.files} cannot be unmounted`)
      const names = (await listRootFiles(paths)).map((name) => join(paths.root, name))
      await removeFiles(names.filter((name) => name !== paths.record))
      if (!(await removeCgroups(record.groups))) throw new Error(`A control group of ${id} cannot be removed`)
      await rm(join(this.#records.directory, '.s', socketLinkName(paths)), { force: true })
      await this.#records.remove(id)
      this.#ports.delete(id)
    })
  }

  /** Ends what is left of an earlier start, makes what is missing, and starts the program. */
  async #launch(config: SandboxConfig, previous: SandboxRecord, attempt: number): Promise<void> {
    this.#starting.add(config.id)
    try {
      const capabilities = await this.#getCapabilities()
      const paths = this.#paths(config.id)
      const isJailNeeded = this.#options.isolate === 'bubblewrap'
      const invalidReason = await validateConfig(config, capabilities, paths, this.#deps, isJailNeeded)
      // From here on no supervisor of an earlier start begins anything.
      const fenced = await this.#records.write({
        ...previous,
        epoch: '',
        isRemoving: false,
        fault: invalidReason ?? null,
      })
      // The record of a start is on the disk before anything is started: without one there is nothing to look for on the host.
      if (previous.startedAtMs > 0) await killAll(paths, fenced)
      if (invalidReason !== undefined) return
      await removeCgroups(previous.groups)
      await removeFiles(
        (await listRootFiles(paths)).filter(isStartFile).map((name) => join(paths.root, name)),
      )
      const record = await this.#records.write(await this.#newRecord(config, previous, capabilities))
      const failure =
        (await prepareFiles(paths, record, previous)) ??
        (await createCgroups(capabilities.hierarchies, record.groups, config.resources))
      if (failure !== undefined) {
        await this.#records.write({ ...record, fault: failure })
        return
      }
      const child = await launchSupervisor(await buildLaunch(config, paths, record, capabilities, this.#deps))
      const onExit = () => this.#retryOnAnotherPort(config, record, attempt)
      child.once('exit', onExit)
      setTimeout(() => child.off('exit', onExit), portRetryWindowMs).unref()
    } finally {
      this.#starting.delete(config.id)
    }
  }

  async #newRecord(
    config: SandboxConfig,
    previous: SandboxRecord,
    capabilities: HostCapabilities,
  ): Promise<SandboxRecord> {
    const { id } = config
    const isJailed = capabilities.jail !== undefined
    const { diskBytes } = config.resources
    return {
      ...previous,
      isRemoving: false,
      fault: null,
      epoch: randomBytes(8).toString('hex'),
      startedAtMs: Date.now(),
      bootId: await readBootId(),
      network: config.network,
      port: config.network === 'none' ? null : await this.#choosePort(id, previous.port),
      user: capabilities.jail?.setpriv === undefined ? null : hostUserId(this.#options.ledgerId, id),
      isJailed,
      workingDir: resolveWorkingDir(config, this.#paths(id), isJailed),
      groups: cgroupPaths(capabilities.hierarchies, this.#options.ledgerId, id),
      // Decided once: what is there cannot be moved to another disk.
      diskBytes:
        previous.startedAtMs > 0
          ? previous.diskBytes
          : capabilities.canLimitDisk
            ? (diskBytes ?? null)
            : null,
    }
  }

  /** The same one as before where that is possible: somebody may have written it down. */
  async #choosePort(id: string, previous: number | null): Promise<number> {
    const reserved = new Set([...this.#ports].filter(([each]) => each !== id).map(([, port]) => port))
    const isReusable = previous !== null && !reserved.has(previous) && (await isFree(previous))
    const port = isReusable ? previous : await findFreePort(reserved)
    this.#ports.set(id, port)
    return port
  }

  #retryOnAnotherPort(config: SandboxConfig, { epoch, port }: SandboxRecord, attempt: number): void {
    const retry = this.#runExclusive(config.id, async () => {
      const record = await this.#records.read(config.id)
      if (record?.epoch !== epoch || record.isRemoving || port === null || attempt >= maxPortAttempts) return
      // It ended by itself, and somebody else has its port.
      const exit = await readExit(this.#paths(config.id), epoch)
      if (exit === undefined || exit.code === 0 || (await isFree(port))) return
      this.#options.log('info', 'a port was taken', { sandbox: config.id, port })
      await this.#launch(config, record, attempt + 1)
    })
    retry.catch((error: unknown) =>
      this.#options.log('warn', 'a sandbox was not started again', { error: String(error) }),
    )
  }

  async #isRunning(record: SandboxRecord): Promise<boolean> {
    if (record.epoch === '' || record.isRemoving || record.fault !== null) return false
    const paths = this.#paths(record.id)
    const [supervisors, exit] = await Promise.all([
      listSupervisors(paths, record),
      readExit(paths, record.epoch),
    ])
    return supervisors.length > 0 && exit === undefined
  }

  #paths(id: string): SandboxPaths {
    return sandboxPaths(this.#records.directory, id)
  }

  #getCapabilities(): Promise<HostCapabilities> {
    this.#capabilities ??= this.#detectCapabilities().catch((error: unknown) => {
      this.#capabilities = undefined
      throw error
    })
    return this.#capabilities
  }

  async #detectCapabilities(): Promise<HostCapabilities> {
    await this.#records.removeLeftovers()
    const { isolate = 'auto', limit = 'auto' } = this.#options
    const capabilities = await detectHostCapabilities(this.#records.probePrefix, isolate, limit === 'auto')
    void this.#code?.make(capabilities.jail)
    return capabilities
  }

  /** One thing at a time for each sandbox: a start that looks for another port is nobody's call. */
  #runExclusive(id: string, work: () => Promise<void>): Promise<void> {
    if (!idPattern.test(id)) return Promise.resolve()
    return this.#mutex.runExclusive(id, work)
  }
}

function checkId(id: string): void {
  if (!idPattern.test(id)) throw new Error(`${JSON.stringify(id)} is not an id of a sandbox`)
}

/** Files that belong to one start. */
function isStartFile(name: string): boolean {
  return /^(pid|exit|fifo|drained|arguments)\./.test(name)
}

/** As deep and as closed as the sandbox may have made them; mounts of others are not entered. */
async function removeFiles(paths: readonly string[]): Promise<void> {
  if (paths.length === 0) return
  const own = process.platform === 'linux' ? ['--one-file-system'] : []
  const removed = await runProgram('rm', ['-rf', ...own, '--', ...paths], 600_000)
  if (removed.isOk) return
  await runProgram('chmod', ['-R', 'u+rwx', '--', ...paths], 600_000)
  await runProgram('chattr', ['-R', '-f', '-i', '-a', '--', ...paths], 600_000)
  const again = await runProgram('rm', ['-rf', ...own, '--', ...paths], 600_000)
  if (!again.isOk) throw new Error(`Its files cannot be removed: ${again.output.slice(0, 500)}`)
}
