import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { isAbsolute, join, resolve } from 'node:path'
import type { Log } from '@slipway/protocol'
import type { Backend, Isolation, Order, Seen } from '../backend.ts'
import { insideSocket } from './bubblewrap/arguments.ts'
import { groupsOf, makeGroups, removeGroups } from './cgroups/sandbox-cgroups.ts'
import { CodeCache } from './code-cache.ts'
import { unmountBelow } from './host/disk-image.ts'
import { freePort, isFree } from './host/ports.ts'
import { bootId } from './host/processes.ts'
import { run } from './host/run-program.ts'
import { findMeans, type Means, type Wanted } from './host-capabilities.ts'
import { look } from './inspect.ts'
import { faultOf, launchOf, prepareFiles, type Surroundings, workingDirOf } from './prepare-sandbox.ts'
import { hostUserOf, idPattern, linkNameOf, type Place, placeOf } from './sandbox-paths.ts'
import { endAll, isPaused, namesOf, pauseAll, resumeAll, supervisorsOf } from './sandbox-processes.ts'
import { RecordFolder, type SandboxRecord } from './sandbox-record.ts'
import { exitOf, launch } from './supervisor.ts'

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
  readonly hidden?: readonly string[]
  readonly log: Log
  /** `auto`: bubblewrap where it works. `bubblewrap`: without it every start is broken. `none`: plain processes. */
  readonly isolate?: Wanted
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
const earlyMs = 30_000
const maxPortTrials = 5

/**
 * Sandboxes as processes of this machine: behind bubblewrap's walls and in control groups where the host has them. Each has a
 * folder with its record, its output and its files, and a small shell beside it that lives on when the server does not; what is
 * known about a sandbox is read from there each time.
 */
export class ProcessBackend implements Backend {
  readonly name = 'process'
  readonly #options: ProcessBackendOptions
  readonly #surroundings: Surroundings
  readonly #records: RecordFolder
  readonly #turns = new Map<string, Promise<void>>()
  readonly #starting = new Set<string>()
  readonly #ports = new Map<string, number>()
  readonly #code: CodeCache | undefined
  #means: Promise<Means> | undefined

  constructor(options: ProcessBackendOptions) {
    const { directory, agentCommand, readable, hidden = [], hostSocket, codeDirectory } = options
    const more = [hostSocket, codeDirectory].filter((path) => path !== undefined)
    const paths = [directory, ...readable, ...hidden, ...more]
    const relative = paths.find((path) => !isAbsolute(path))
    if (relative !== undefined) throw new Error(`${relative} is not an absolute path`)
    this.#options = options
    this.#code =
      codeDirectory === undefined
        ? undefined
        : new CodeCache({ ...options, directory: codeDirectory, hidden: [directory, ...hidden] })
    const codeFolder = () => this.#code?.folder
    this.#surroundings = {
      directory: resolve(directory),
      agentCommand,
      readable,
      hidden,
      hostSocket,
      codeFolder,
    }
    this.#records = new RecordFolder(this.#surroundings.directory, options.ledgerId)
  }

  hostUrl(port: number, network: Order['network']): string | undefined {
    if (network === 'shared') return `http://127.0.0.1:${port}`
    const { hostSocket } = this.#options
    return hostSocket === undefined
      ? undefined
      : `http+unix://${encodeURIComponent(insideSocket(hostSocket))}`
  }

  async isolation(): Promise<Isolation> {
    return (await this.#found()).isolation
  }

  async start(order: Order): Promise<void> {
    checkId(order.id)
    await this.#turn(order.id, async () => {
      await this.#found()
      const record = await this.#records.open(order.id)
      if (!(await this.#isRunning(record))) await this.#launch(order, record, 1)
    })
  }

  async list(id?: string): Promise<readonly Seen[]> {
    const records = id === undefined ? await this.#records.all() : [await this.#records.read(id)]
    const found = records.filter((each) => each !== undefined)
    return Promise.all(
      found.map((record) =>
        look(this.#records.directory, this.#place(record.id), record, this.#starting.has(record.id)),
      ),
    )
  }

  async pause(id: string): Promise<void> {
    await this.#turn(id, async () => {
      const record = await this.#records.read(id)
      if (record === undefined || !(await this.#isRunning(record))) return
      const place = this.#place(id)
      if (!(await isPaused(place, record))) await pauseAll(place, record)
    })
  }

  async resume(order: Order): Promise<void> {
    checkId(order.id)
    await this.#turn(order.id, async () => {
      await this.#found()
      const record = await this.#records.open(order.id)
      if (!(await this.#isRunning(record))) return this.#launch(order, record, 1)
      const place = this.#place(order.id)
      if (await isPaused(place, record)) await resumeAll(place, record)
    })
  }

  async remove(id: string): Promise<void> {
    await this.#turn(id, async () => {
      const found = await this.#records.read(id)
      if (found === undefined) return
      await this.#found()
      const place = this.#place(id)
      const record = await this.#records.write({ ...found, isRemoving: true, epoch: '' })
      await endAll(place, record)
      if (!(await unmountBelow(place.root))) throw new Error(`${place.files} cannot be unmounted`)
      const names = (await namesOf(place)).map((name) => join(place.root, name))
      await removeFiles(names.filter((name) => name !== place.record))
      if (!(await removeGroups(record.groups))) throw new Error(`A control group of ${id} cannot be removed`)
      await rm(join(this.#records.directory, '.s', linkNameOf(place)), { force: true })
      await this.#records.forget(id)
      this.#ports.delete(id)
    })
  }

  /** Ends what is left of an earlier start, makes what is missing, and starts the program. */
  async #launch(order: Order, old: SandboxRecord, trial: number): Promise<void> {
    this.#starting.add(order.id)
    try {
      const means = await this.#found()
      const place = this.#place(order.id)
      const isJailNeeded = this.#options.isolate === 'bubblewrap'
      const fault = await faultOf(order, means, place, this.#surroundings, isJailNeeded)
      // From here on no supervisor of an earlier start begins anything.
      const fenced = await this.#records.write({ ...old, epoch: '', isRemoving: false, fault: fault ?? null })
      // The record of a start is on the disk before anything is started: without one there is nothing to look for on the host.
      if (old.startedAtMs > 0) await endAll(place, fenced)
      if (fault !== undefined) return
      await removeGroups(old.groups)
      await removeFiles((await namesOf(place)).filter(isOfStart).map((name) => join(place.root, name)))
      const record = await this.#records.write(await this.#recordOf(order, old, means))
      const broken =
        (await prepareFiles(place, record, old)) ??
        (await makeGroups(means.hierarchies, record.groups, order.resources))
      if (broken !== undefined) {
        await this.#records.write({ ...record, fault: broken })
        return
      }
      const child = await launch(await launchOf(order, place, record, means, this.#surroundings))
      const ended = () => this.#againOnAnotherPort(order, record, trial)
      child.once('exit', ended)
      setTimeout(() => child.off('exit', ended), earlyMs).unref()
    } finally {
      this.#starting.delete(order.id)
    }
  }

  async #recordOf(order: Order, old: SandboxRecord, means: Means): Promise<SandboxRecord> {
    const { id } = order
    const isJailed = means.jail !== undefined
    const { diskBytes } = order.resources
    return {
      ...old,
      isRemoving: false,
      fault: null,
      epoch: randomBytes(8).toString('hex'),
      startedAtMs: Date.now(),
      bootId: await bootId(),
      network: order.network,
      port: order.network === 'none' ? null : await this.#portFor(id, old.port),
      user: means.jail?.setpriv === undefined ? null : hostUserOf(this.#options.ledgerId, id),
      isJailed,
      workingDir: workingDirOf(order, this.#place(id), isJailed),
      groups: groupsOf(means.hierarchies, this.#options.ledgerId, id),
      // Decided once: what is there cannot be moved to another disk.
      diskBytes: old.startedAtMs > 0 ? old.diskBytes : means.canLimitDisk ? (diskBytes ?? null) : null,
    }
  }

  /** The same one as before where that is possible: somebody may have written it down. */
  async #portFor(id: string, before: number | null): Promise<number> {
    const taken = new Set([...this.#ports].filter(([each]) => each !== id).map(([, port]) => port))
    const isKept = before !== null && !taken.has(before) && (await isFree(before))
    const port = isKept ? before : await freePort(taken)
    this.#ports.set(id, port)
    return port
  }

  #againOnAnotherPort(order: Order, { epoch, port }: SandboxRecord, trial: number): void {
    const again = this.#turn(order.id, async () => {
      const record = await this.#records.read(order.id)
      if (record?.epoch !== epoch || record.isRemoving || port === null || trial >= maxPortTrials) return
      // It ended by itself, and somebody else has its port.
      const exit = await exitOf(this.#place(order.id), epoch)
      if (exit === undefined || exit.code === 0 || (await isFree(port))) return
      this.#options.log('info', 'a port was taken', { sandbox: order.id, port })
      await this.#launch(order, record, trial + 1)
    })
    again.catch((error: unknown) =>
      this.#options.log('warn', 'a sandbox was not started again', { error: String(error) }),
    )
  }

  async #isRunning(record: SandboxRecord): Promise<boolean> {
    if (record.epoch === '' || record.isRemoving || record.fault !== null) return false
    const place = this.#place(record.id)
    const [supervisors, exit] = await Promise.all([supervisorsOf(place, record), exitOf(place, record.epoch)])
    return supervisors.length > 0 && exit === undefined
  }

  #place(id: string): Place {
    return placeOf(this.#records.directory, id)
  }

  #found(): Promise<Means> {
    this.#means ??= this.#prepare().catch((error: unknown) => {
      this.#means = undefined
      throw error
    })
    return this.#means
  }

  async #prepare(): Promise<Means> {
    await this.#records.sweep()
    const { isolate = 'auto', limit = 'auto' } = this.#options
    const means = await findMeans(this.#records.trial, isolate, limit === 'auto')
    void this.#code?.make(means.jail)
    return means
  }

  /** One thing at a time for each sandbox: a start that looks for another port is nobody's call. */
  #turn(id: string, work: () => Promise<void>): Promise<void> {
    if (!idPattern.test(id)) return Promise.resolve()
    const before = this.#turns.get(id) ?? Promise.resolve()
    const mine = before.catch(() => {}).then(work)
    const forget = () => {
      if (this.#turns.get(id) === mine) this.#turns.delete(id)
    }
    this.#turns.set(id, mine)
    mine.then(forget, forget)
    return mine
  }
}

function checkId(id: string): void {
  if (!idPattern.test(id)) throw new Error(`${JSON.stringify(id)} is not an id of a sandbox`)
}

/** Files that belong to one start. */
function isOfStart(name: string): boolean {
  return /^(pid|exit|fifo|drained|arguments)\./.test(name)
}

/** As deep and as closed as the sandbox may have made them; mounts of others are not entered. */
async function removeFiles(paths: readonly string[]): Promise<void> {
  if (paths.length === 0) return
  const own = process.platform === 'linux' ? ['--one-file-system'] : []
  const removed = await run('rm', ['-rf', ...own, '--', ...paths], 600_000)
  if (removed.isOk) return
  await run('chmod', ['-R', 'u+rwx', '--', ...paths], 600_000)
  await run('chattr', ['-R', '-f', '-i', '-a', '--', ...paths], 600_000)
  const again = await run('rm', ['-rf', ...own, '--', ...paths], 600_000)
  if (!again.isOk) throw new Error(`Its files cannot be removed: ${again.output.slice(0, 500)}`)
}
