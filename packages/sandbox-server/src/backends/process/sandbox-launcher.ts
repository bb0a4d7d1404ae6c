import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { SandboxConfig } from '../backend.ts'
import { cgroupPaths, createCgroups, removeCgroups } from './cgroups/sandbox-cgroups.ts'
import { readBootId } from './host/processes.ts'
import { removeFiles } from './host/remove-files.ts'
import type { HostCapabilities } from './host-capabilities.ts'
import { outputSize } from './output.ts'
import {
  buildLaunch,
  type PreparationDeps,
  prepareFiles,
  resolveNetwork,
  resolveWorkingDir,
  validateConfig,
} from './prepare-sandbox.ts'
import { hostUserId, sandboxPaths } from './sandbox-paths.ts'
import { killAll, listRootFiles } from './sandbox-processes.ts'
import { readPlace, type SandboxRecord, type SandboxRecords } from './sandbox-record.ts'
import { launchSupervisor } from './supervisor.ts'

interface LauncherDeps extends PreparationDeps {
  readonly ledgerId: string
  readonly records: SandboxRecords
  readonly getCapabilities: () => Promise<HostCapabilities>
}

export class SandboxLauncher {
  readonly starting = new Set<string>()
  readonly #deps: LauncherDeps

  constructor(deps: LauncherDeps) {
    this.#deps = deps
  }

  /**
   * Ends what is left of an earlier start, creates what is missing, and starts the program. One call at a
   * time for
   * each sandbox.
   */
  async launch(config: SandboxConfig, previous: SandboxRecord): Promise<void> {
    this.starting.add(config.id)
    try {
      await this.#launch(config, previous)
    } finally {
      this.starting.delete(config.id)
    }
  }

  async #launch(config: SandboxConfig, previous: SandboxRecord): Promise<void> {
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
    await launchSupervisor(await buildLaunch(config, paths, record, capabilities, this.#deps))
  }

  async #newRecord(
    config: SandboxConfig,
    previous: SandboxRecord,
    capabilities: HostCapabilities,
  ): Promise<SandboxRecord> {
    const { ledgerId, records } = this.#deps
    const { jail, hierarchies, canLimitDisk } = capabilities
    const { id, resources } = config
    const place = await readPlace(sandboxPaths(records.directory, id).root)
    // The groups of a copy are not those of what it was copied from, which may run.
    const name = previous.isCopy ? `${id}.${place.replace(':', '-')}` : id
    const diskBytes = canLimitDisk ? (resources.diskBytes ?? null) : null
    return {
      ...previous,
      epoch: randomBytes(8).toString('hex'),
      startedAtMs: Date.now(),
      bootId: await readBootId(),
      place,
      outputStart: await outputSize(sandboxPaths(records.directory, id).root),
      network: resolveNetwork(config, capabilities),
      hasSocket: true,
      user: jail?.setpriv === undefined ? null : hostUserId(ledgerId, id),
      isJailed: jail !== undefined,
      workingDir: resolveWorkingDir(config, sandboxPaths(records.directory, id), jail !== undefined),
      groups: cgroupPaths(hierarchies, ledgerId, name),
      // Decided by the first start: its files cannot move to another disk.
      diskBytes: previous.startedAtMs > 0 ? previous.diskBytes : diskBytes,
    }
  }
}

function isStartFile(name: string): boolean {
  return /^(pid|exit|fifo|drained|arguments)\./.test(name)
}
