import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import type { KeyedMutex } from '@slipway/shared/async'
import type { SandboxConfig } from '../backend.ts'
import { canListen, findFreePort } from '../ports.ts'
import { cgroupPaths, createCgroups, removeCgroups } from './cgroups/sandbox-cgroups.ts'
import { readBootId } from './host/processes.ts'
import { removeFiles } from './host/remove-files.ts'
import type { HostCapabilities } from './host-capabilities.ts'
import {
  buildLaunch,
  type PreparationDeps,
  prepareFiles,
  resolveWorkingDir,
  validateConfig,
} from './prepare-sandbox.ts'
import { hostUserId, sandboxPaths } from './sandbox-paths.ts'
import { killAll, listRootFiles } from './sandbox-processes.ts'
import type { SandboxRecord, SandboxRecords } from './sandbox-record.ts'
import { launchSupervisor, readExit } from './supervisor.ts'

interface LauncherDeps extends PreparationDeps {
  readonly ledgerId: string
  readonly records: SandboxRecords
  /** Held by callers of `launch`. */
  readonly mutex: KeyedMutex
  readonly getCapabilities: () => Promise<HostCapabilities>
  readonly log: LogFunction
}

/** How long after a start its end may be due to a port that is in use. */
const portRetryWindowMs = 30_000
const maxPortAttempts = 5

export class SandboxLauncher {
  readonly starting = new Set<string>()
  /** By id: also of sandboxes that do not run. */
  readonly ports = new Map<string, number>()
  readonly #deps: LauncherDeps

  constructor(deps: LauncherDeps) {
    this.#deps = deps
  }

  /** Ends what is left of an earlier start, creates what is missing, and starts the program. */
  async launch(config: SandboxConfig, previous: SandboxRecord, attempt = 1): Promise<void> {
    this.starting.add(config.id)
    try {
      await this.#launch(config, previous, attempt)
    } finally {
      this.starting.delete(config.id)
    }
  }

  async #launch(config: SandboxConfig, previous: SandboxRecord, attempt: number): Promise<void> {
    const { records } = this.#deps
    const capabilities = await this.#deps.getCapabilities()
    const paths = sandboxPaths(records.directory, config.id)
    const invalidReason = await validateConfig(config, capabilities, paths, this.#deps)
    // From now on no supervisor of an earlier start begins anything.
    const idle = { ...previous, epoch: '', isRemoving: false, fault: invalidReason ?? null }
    const fenced = await records.write(idle)
    // A start writes its record first: without one, there is nothing to end.
    if (previous.startedAtMs > 0) await killAll(paths, fenced)
    if (invalidReason !== undefined) return
    await removeCgroups(previous.groups)
    const startFiles = (await listRootFiles(paths)).filter(isStartFile)
    await removeFiles(startFiles.map((name) => join(paths.root, name)))
    const record = await records.write(await this.#newRecord(config, fenced, capabilities))
    const failure =
      (await prepareFiles(paths, record, previous)) ??
      (await createCgroups(capabilities.hierarchies, record.groups, config.resources))
    if (failure !== undefined) {
      await records.write({ ...record, fault: failure })
      return
    }
    const child = await launchSupervisor(await buildLaunch(config, paths, record, capabilities, this.#deps))
    const onExit = () => this.#retryOnAnotherPort(config, record, attempt)
    child.once('exit', onExit)
    setTimeout(() => child.off('exit', onExit), portRetryWindowMs).unref()
  }

  async #newRecord(
    config: SandboxConfig,
    previous: SandboxRecord,
    { jail, hierarchies, canLimitDisk }: HostCapabilities,
  ): Promise<SandboxRecord> {
    const { ledgerId, records } = this.#deps
    const { id, network, resources } = config
    const diskBytes = canLimitDisk ? (resources.diskBytes ?? null) : null
    return {
      ...previous,
      epoch: randomBytes(8).toString('hex'),
      startedAtMs: Date.now(),
      bootId: await readBootId(),
      network,
      port: network === 'none' ? null : await this.#choosePort(id, previous.port),
      user: jail?.setpriv === undefined ? null : hostUserId(ledgerId, id),
      isJailed: jail !== undefined,
      workingDir: resolveWorkingDir(config, sandboxPaths(records.directory, id), jail !== undefined),
      groups: cgroupPaths(hierarchies, ledgerId, id),
      // Decided by the first start: its files cannot move to another disk.
      diskBytes: previous.startedAtMs > 0 ? previous.diskBytes : diskBytes,
    }
  }

  /** The previous port if possible: callers may have stored it. */
  async #choosePort(id: string, previous: number | null): Promise<number> {
    const reserved = new Set([...this.ports].filter(([each]) => each !== id).map(([, port]) => port))
    const isReusable =
      previous !== null && !reserved.has(previous) && (await canListen('127.0.0.1', previous))
    const port = isReusable ? previous : await findFreePort(reserved)
    this.ports.set(id, port)
    return port
  }

  #retryOnAnotherPort(config: SandboxConfig, { epoch, port }: SandboxRecord, attempt: number): void {
    const { records, mutex, log } = this.#deps
    const retry = mutex.runExclusive(config.id, async () => {
      const record = await records.read(config.id)
      if (record?.epoch !== epoch || record.isRemoving || port === null || attempt >= maxPortAttempts) return
      // It ended by itself, and another program has its port.
      const exit = await readExit(sandboxPaths(records.directory, config.id), epoch)
      if (exit === undefined || exit.code === 0 || (await canListen('127.0.0.1', port))) return
      log('info', 'the port of a sandbox is in use: retrying on another one', { sandbox: config.id, port })
      await this.launch(config, record, attempt + 1)
    })
    retry.catch((error: unknown) => log('warn', 'a retry of a start failed', { error: String(error) }))
  }
}

function isStartFile(name: string): boolean {
  return /^(pid|exit|fifo|drained|arguments)\./.test(name)
}
