import { rm, writeFile } from 'node:fs/promises'
import { isAbsolute, join, resolve } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { LogFunction } from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import { exists } from '@slipway/shared/fs'
import { removeSocketLinks } from '@slipway/shared/process'
import {
  type Backend,
  type CopiedFiles,
  FilesError,
  type Isolation,
  type ObservedSandbox,
  type SandboxConfig,
  type SandboxUse,
} from '../backend.ts'
import { AgentSockets, watchAgentSocket } from './agent-socket.ts'
import { socketPathInside } from './bubblewrap/arguments.ts'
import { removeCgroups } from './cgroups/sandbox-cgroups.ts'
import { CodeCache } from './code-cache.ts'
import { copyTrees, type SandboxTree } from './copy-files.ts'
import { unmountAllBelow } from './host/disk-image.ts'
import { removeFiles } from './host/remove-files.ts'
import { detectHostCapabilities, type HostCapabilities, type IsolationMode } from './host-capabilities.ts'
import { inspectSandbox } from './inspect.ts'
import { readOutput } from './output.ts'
import { SandboxLauncher } from './sandbox-launcher.ts'
import { idPattern, type SandboxPaths, sandboxPaths, socketLinkFolders } from './sandbox-paths.ts'
import {
  isPaused,
  killAll,
  listRootFiles,
  listSupervisors,
  measureDisk,
  measureUse,
  pauseAll,
  resumeAll,
} from './sandbox-processes.ts'
import { type SandboxRecord, SandboxRecords } from './sandbox-record.ts'
import { readExit, readSupervisorId } from './supervisor.ts'
import { readStamp, UnchangedSandboxes } from './unchanged-sandboxes.ts'

export interface ProcessBackendOptions {
  /** Of the sandboxes, absolute; created when it is missing. Ledgers may share one. */
  readonly directory: string
  /** The label of the sandboxes: 16 random characters or more. */
  readonly ledgerId: string
  /** Program (absolute) and arguments of our own agent server; the address to listen on is appended. */
  readonly agentCommand: readonly string[]
  /** Files and folders of that program, absolute: sandboxes see them at these paths, read-only. */
  readonly readable: readonly string[]
  /** Folders within readable ones that no sandbox may see; `directory` is always one. */
  readonly inaccessible?: readonly string[]
  readonly log: LogFunction
  /** `auto`: bubblewrap where it works. `bubblewrap`: starts fail without it. `none`: plain processes. */
  readonly isolate?: IsolationMode
  /** Where sandboxes can have no separate network, they share that of the host instead of failing. */
  readonly mayShareNetwork?: boolean
  /** `auto`: cgroups and their own file systems, where possible. `none`: only the limits of a process. */
  readonly limit?: 'auto' | 'none'
  /** Absolute, alone in its folder, which sandboxes see; its listener lets all users connect (mode 0666). */
  readonly hostSocket?: string
  /** Other servers use the directory too. */
  readonly isDirectoryShared?: boolean
  /** Folder for the compiled code of our own agent server, absolute; without it each start compiles it. */
  readonly codeDirectory?: string
}

/** Leftovers that are younger may be in use by another server. */
const leftoverMs = 600_000
/** Some milliseconds. */
const looksAtATime = 50

/** Sandboxes as processes, isolated where the host can, each with a supervisor that outlives the server. */
export class ProcessBackend implements Backend {
  readonly name = 'process'
  readonly appliesConfigOnResume = true
  readonly #options: ProcessBackendOptions
  readonly #records: SandboxRecords
  readonly #launcher: SandboxLauncher
  readonly #mutex = new KeyedMutex()
  readonly #code: CodeCache | undefined
  readonly #sockets: AgentSockets
  /** Sandboxes that are frozen to be measured, and how often each was. */
  readonly #frozen = new Set<string>()
  readonly #freezes = new Map<string, number>()
  readonly #unchanged = new UnchangedSandboxes()
  /** Known when the capabilities of the host have been detected. */
  #isNetworkShared = false
  #capabilities: Promise<HostCapabilities> | undefined

  constructor(options: ProcessBackendOptions) {
    const { directory, readable, inaccessible = [], hostSocket, codeDirectory } = options
    const optional = [hostSocket, codeDirectory].filter((path) => path !== undefined)
    const relative = [directory, ...readable, ...inaccessible, ...optional].find((path) => !isAbsolute(path))
    if (relative !== undefined) throw new Error(`${relative} is not an absolute path`)
    this.#options = options
    if (codeDirectory !== undefined) {
      const hidden = [directory, ...inaccessible]
      this.#code = new CodeCache({ ...options, directory: codeDirectory, inaccessible: hidden })
    }
    this.#records = new SandboxRecords(resolve(directory), options.ledgerId)
    this.#sockets = new AgentSockets(this.#records.directory)
    this.#launcher = new SandboxLauncher({
      ...options,
      directory: this.#records.directory,
      inaccessible,
      hostSocket,
      isJailRequired: options.isolate === 'bubblewrap',
      mayShareNetwork: options.mayShareNetwork === true || options.isolate === 'none',
      codeFolder: () => this.#code?.folder,
      records: this.#records,
      getCapabilities: () => this.#getCapabilities(),
    })
  }

  hostUrl(port: number, network: SandboxConfig['network']): string | undefined {
    if (network === 'shared' || this.#isNetworkShared) return `http://127.0.0.1:${port}`
    const { hostSocket } = this.#options
    return hostSocket === undefined
      ? undefined
      : `http+unix://${encodeURIComponent(socketPathInside(hostSocket))}`
  }

  async isolation(): Promise<Isolation> {
    return (await this.#getCapabilities()).isolation
  }

  /** Why sandboxes can have no separate network here; empty when they can. */
  async networkFailure(): Promise<string> {
    return (await this.#getCapabilities()).networkFailure
  }

  async start(config: SandboxConfig): Promise<void> {
    await this.#ensureRunning(config, async () => {})
  }

  /** One is always looked at as a whole, of all only those that have changed. */
  async list(id?: string): Promise<readonly ObservedSandbox[]> {
    const ids = id === undefined ? await this.#records.listIds() : [id]
    if (id === undefined) this.#unchanged.retain(ids)
    const looks: Promise<ObservedSandbox | undefined>[] = []
    for (const each of ids) {
      const unchanged = id === undefined ? this.#findUnchanged(each) : undefined
      looks.push(unchanged === undefined ? this.#look(each) : Promise.resolve(unchanged))
      // Requests are answered in between.
      if (looks.length % looksAtATime === 0) await nextTurn()
    }
    return (await Promise.all(looks)).filter((one) => one !== undefined)
  }

  #findUnchanged(id: string): ObservedSandbox | undefined {
    const isInWork = this.#frozen.has(id) || this.#launcher.starting.has(id)
    return isInWork ? undefined : this.#unchanged.find(id, this.#paths(id))
  }

  async #look(id: string): Promise<ObservedSandbox | undefined> {
    if (!idPattern.test(id)) return undefined
    const paths = this.#paths(id)
    const before = readStamp(paths)
    const record = await this.#records.find(id)
    if (record === undefined) return undefined
    const observed = await this.#inspect(record)
    const { AGENT_SERVER: address } = observed.addresses
    const socket = address && decodeURIComponent(address.slice('http+unix://'.length))
    const supervisor = socket === undefined ? undefined : await readSupervisorId(paths, record.epoch)
    if (socket !== undefined && supervisor !== undefined)
      this.#unchanged.remember(id, paths, before, { observed, supervisor, socket, groups: record.groups })
    return observed
  }

  /** One that is frozen to be measured runs, as far as others see it. */
  async #inspect(record: SandboxRecord): Promise<ObservedSandbox> {
    const { id } = record
    const freezes = this.#freezes.get(id)
    const isStarting = this.#launcher.starting.has(id)
    const observed = await inspectSandbox(this.#sockets, this.#paths(id), record, isStarting)
    const wasFrozen = this.#frozen.has(id) || this.#freezes.get(id) !== freezes
    const isAlive = observed.state === 'running' || observed.state === 'paused'
    const isThawing = isAlive && !wasFrozen && (await exists(this.#paths(id).thawing))
    if (!isThawing && (observed.state !== 'paused' || !wasFrozen)) return observed
    await this.#runExclusive(id, () => this.#completeThaw(record))
    return await this.#inspect(record)
  }

  /** A server that ended while a sandbox was frozen may have left some of its processes stopped. */
  async #completeThaw(record: SandboxRecord): Promise<void> {
    const paths = this.#paths(record.id)
    if (!(await exists(paths.thawing))) return
    try {
      if (await this.#isRunning(record)) await resumeAll(paths, record)
    } catch (error) {
      this.#options.log('warn', 'a sandbox could not be continued', {
        sandbox: record.id,
        error: String(error),
      })
    }
    await rm(paths.thawing, { force: true })
  }

  watchStart({ id, epoch }: ObservedSandbox, onChange: () => void): Disposable {
    return watchAgentSocket(this.#paths(id), epoch, onChange)
  }

  async pause(id: string): Promise<void> {
    await this.#runExclusive(id, async () => {
      const record = await this.#records.read(id)
      if (record === undefined || !(await this.#isRunning(record))) return
      const paths = this.#paths(id)
      await rm(paths.thawing, { force: true })
      if (!(await isPaused(paths, record))) await pauseAll(paths, record)
    })
  }

  async stop(id: string): Promise<void> {
    await this.#runExclusive(id, async () => {
      const record = await this.#records.read(id)
      if (record === undefined || !(await this.#isRunning(record))) return
      await killAll(this.#paths(id), record)
    })
  }

  async readLog(id: string, maxBytes: number): Promise<string> {
    return idPattern.test(id) ? await readOutput(this.#paths(id).root, maxBytes) : ''
  }

  async diskUsage(id: string): Promise<number | undefined> {
    const record = idPattern.test(id) ? await this.#records.read(id) : undefined
    return record && (await measureDisk(this.#paths(id), record))
  }

  async pauseAbove(id: string, limitBytes: number): Promise<number | undefined> {
    let bytes: number | undefined
    await this.#runExclusive(id, async () => {
      const record = await this.#records.read(id)
      if (record === undefined || !(await this.#isRunning(record))) return
      const paths = this.#paths(id)
      if (await isPaused(paths, record, true)) return
      // Its writes fail at the limit.
      if (record.diskBytes !== null) {
        bytes = await measureDisk(paths, record)
        return
      }
      await this.#whileFrozen({ paths, record }, async () => {
        bytes = await measureDisk(paths, record)
        return bytes === undefined || bytes <= limitBytes
      })
    })
    return bytes
  }

  async copyFiles(fromId: string, toId: string, maxBytes: number): Promise<CopiedFiles> {
    const capabilities = await this.#getCapabilities()
    let takenAt = 0
    const copy = async () => {
      const [from, to] = [await this.#requireRunning(fromId), await this.#requireRunning(toId)]
      await this.#whileFrozen(to, async () => {
        await this.#whileFrozen(from, async () => {
          takenAt = Date.now() * 1000
          await copyTrees(from, to, maxBytes, capabilities)
          // Another server of the directory may have continued it.
          if (!(await isPaused(from.paths, from.record)))
            throw new FilesError('The sandbox continued while its files were copied. Try again.')
          return true
        })
        return true
      })
    }
    // In one order, so that two copies do not wait for each other.
    const [first = fromId, second = toId] = [fromId, toId].sort()
    await this.#runExclusive(first, () => this.#runExclusive(second, copy))
    return { takenAt }
  }

  async #requireRunning(id: string): Promise<SandboxTree> {
    const record = await this.#records.read(id)
    const paths = this.#paths(id)
    if (record === undefined || !(await this.#isRunning(record)) || (await isPaused(paths, record)))
      throw new FilesError('Its files are copied while it runs.')
    return { paths, record }
  }

  /** Freezes its processes for the work, which says whether they continue; they do when it fails. */
  async #whileFrozen({ paths, record }: SandboxTree, work: () => Promise<boolean>): Promise<void> {
    const { id } = record
    this.#freezes.set(id, (this.#freezes.get(id) ?? 0) + 1)
    this.#frozen.add(id)
    let isContinued = true
    try {
      await noteThawing(paths)
      try {
        await pauseAll(paths, record)
        isContinued = await work()
      } finally {
        if (isContinued) await resumeAll(paths, record)
      }
      await rm(paths.thawing, { force: true })
    } finally {
      this.#frozen.delete(id)
    }
  }

  async measureUse(id: string): Promise<SandboxUse | undefined> {
    const record = idPattern.test(id) ? await this.#records.read(id) : undefined
    return record && (await measureUse(this.#paths(id), record))
  }

  async resume(config: SandboxConfig): Promise<void> {
    await this.#ensureRunning(config, async (paths, record) => {
      if (!(await isPaused(paths, record))) return
      await noteThawing(paths)
      await resumeAll(paths, record)
      await rm(paths.thawing, { force: true })
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
      await this.#records.remove(id)
      await removeSocketLinks(paths.sockets, socketLinkFolders(this.#records.directory))
      this.#sockets.forget(id)
      this.#freezes.delete(id)
    })
  }

  /** Launches it, or calls `whenRunning`. */
  async #ensureRunning(
    config: SandboxConfig,
    whenRunning: (paths: SandboxPaths, record: SandboxRecord) => Promise<void>,
  ): Promise<void> {
    const { id } = config
    if (!idPattern.test(id)) throw new Error(`${JSON.stringify(id)} is not an id of a sandbox`)
    await this.#runExclusive(id, async () => {
      await this.#getCapabilities()
      const record = await this.#records.getOrCreate(id)
      if (await this.#isRunning(record)) await whenRunning(this.#paths(id), record)
      else await this.#launcher.launch(config, record)
    })
  }

  async #isRunning(record: SandboxRecord): Promise<boolean> {
    if (record.epoch === '' || !record.hasSocket || record.isRemoving || record.fault !== null) return false
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
    await this.#records.removeLeftovers(this.#options.isDirectoryShared === true ? leftoverMs : 0)
    const { isolate = 'auto', limit = 'auto' } = this.#options
    const capabilities = await detectHostCapabilities(this.#records.probePrefix, isolate, limit === 'auto')
    this.#isNetworkShared = capabilities.jail?.network === undefined
    await this.#code?.find(capabilities.jail)
    return capabilities
  }

  /** One call at a time for each sandbox, including retries of starts. */
  #runExclusive(id: string, work: () => Promise<void>): Promise<void> {
    if (!idPattern.test(id)) return Promise.resolve()
    return this.#mutex.runExclusive(id, work)
  }
}

/** Nothing is noted on a full disk, where sandboxes are frozen too. */
async function noteThawing(paths: SandboxPaths): Promise<void> {
  await writeFile(paths.thawing, '').catch(() => {})
}
