import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxUse } from '../backend.ts'
import { isFrozen, killCgroups, listCgroupProcesses, setFrozen } from './cgroups/sandbox-cgroups.ts'
import { ignoreErrors, readSmallFile, waitUntil } from './host/files.ts'
import { measureFolder } from './host/measure-folder.ts'
import {
  hasHomeBelow,
  listDescendants,
  listProcesses,
  type Process,
  readBootId,
  readUse,
  sendSignal,
  signalUntilNone,
} from './host/processes.ts'
import type { SandboxPaths } from './sandbox-paths.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import { findSupervisor } from './supervisor.ts'

const signalTimeoutMs = 15_000

/**
 * All processes of a sandbox, without the supervisors. `isQuick`: without looking at the environment of each
 * process of the host, by which those are found that have left the others.
 */
async function listSandboxProcesses(
  paths: SandboxPaths,
  record: SandboxRecord,
  isQuick = false,
): Promise<readonly Process[]> {
  const [everything, supervisors, inCgroups] = await Promise.all([
    listProcesses(),
    listSupervisors(paths, record),
    listCgroupProcesses(record.groups),
  ])
  const leaders = supervisors.map(({ pid }) => pid)
  const pids = new Set(inCgroups)
  for (const leader of leaders) for (const { pid } of listDescendants(everything, leader)) pids.add(pid)
  for (const pid of await listNetworkProcesses(paths)) pids.add(pid)
  // The number of a session is surely of this sandbox while its leader runs.
  const unjailed = record.isJailed ? [] : everything
  const isMarked = isQuick ? [] : await Promise.all(unjailed.map((each) => hasHomeBelow(each, paths.files)))
  for (const [index, { pid, session }] of unjailed.entries())
    if (isMarked[index] || leaders.includes(session)) pids.add(pid)
  return everything.filter(({ pid }) => pids.has(pid) && !leaders.includes(pid))
}

/**
 * What connects the networks of its starts, also when the supervisor has ended: their commands name the
 * folder.
 */
async function listNetworkProcesses(paths: SandboxPaths): Promise<readonly number[]> {
  const names = (await listRootFiles(paths)).filter((name) => name.endsWith('.pasta'))
  const pids = await Promise.all(
    names.map(async (name) => Number((await readSmallFile(join(paths.root, name))) ?? 0)),
  )
  const commands = await Promise.all(pids.map((pid) => readSmallFile(`/proc/${pid}/cmdline`)))
  return pids.filter((_, index) => commands[index]?.includes(`${paths.root}/`))
}

/** The supervisors of all starts that still run. */
export async function listSupervisors(
  paths: SandboxPaths,
  record: SandboxRecord,
): Promise<readonly Process[]> {
  if (record.bootId !== (await readBootId())) return []
  const epochs = (await listRootFiles(paths)).flatMap((name) => /^pid\.(.+)$/.exec(name)?.[1] ?? [])
  const found = await Promise.all(epochs.map((epoch) => findSupervisor(paths, epoch)))
  return found.filter((each) => each !== undefined)
}

export async function listRootFiles(paths: SandboxPaths): Promise<readonly string[]> {
  return (await ignoreErrors(['ENOENT'], readdir(paths.root))) ?? []
}

/** What all processes use together; undefined when nothing runs. */
export async function measureUse(
  paths: SandboxPaths,
  record: SandboxRecord,
): Promise<SandboxUse | undefined> {
  const uses = (await listSandboxProcesses(paths, record)).flatMap(({ pid }) => readUse(pid) ?? [])
  if (uses.length === 0) return undefined
  return {
    memoryBytes: uses.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0),
    cpuSeconds: uses.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
    processes: uses.length,
  }
}

/** Bytes of its files, with deleted ones that its processes hold open; undefined when they cannot be read. */
export async function measureDisk(paths: SandboxPaths, record: SandboxRecord): Promise<number | undefined> {
  return await measureFolder(paths.files, async () =>
    (await listSandboxProcesses(paths, record)).map(({ pid }) => pid),
  )
}

/** Whether all processes are stopped. False when nothing runs. */
export async function isPaused(
  paths: SandboxPaths,
  record: SandboxRecord,
  isQuick = false,
): Promise<boolean> {
  const frozen = isFrozen(record.groups)
  if (frozen !== undefined) return frozen
  const all = await listSandboxProcesses(paths, record, isQuick)
  return all.length > 0 && all.every(isProcessStopped)
}

/** Stops all processes. Rejects when that fails, after continuing what it has stopped. */
export async function pauseAll(paths: SandboxPaths, record: SandboxRecord): Promise<void> {
  const isStopped = (await setFrozen(record.groups, true))
    ? await waitUntil(async () => isFrozen(record.groups) === true, signalTimeoutMs)
    : await stopAll(paths, record)
  if (isStopped) return
  await resumeAll(paths, record)
  throw new Error(`Not all processes of the sandbox ${record.id} could be stopped`)
}

export async function resumeAll(paths: SandboxPaths, record: SandboxRecord): Promise<void> {
  if (await setFrozen(record.groups, false)) return
  // What a debugger has stopped continues when the debugger says so.
  const isGoing = await signalUntilNone(
    async () => (await listSandboxProcesses(paths, record)).filter(({ state }) => state === 'T'),
    'SIGCONT',
    signalTimeoutMs,
  )
  if (!isGoing) throw new Error(`Not all processes of the sandbox ${record.id} could be continued`)
}

/** Ends all processes and the supervisors. Rejects when some are left after some time. */
export async function killAll(paths: SandboxPaths, record: SandboxRecord): Promise<void> {
  let isEnded = await killCgroups(record.groups, signalTimeoutMs)
  if (!record.isJailed) await stopAll(paths, record)
  isEnded &&= await signalUntilNone(() => listSandboxProcesses(paths, record), 'SIGKILL', signalTimeoutMs)
  isEnded &&= await waitUntil(async () => {
    const left = await listSupervisors(paths, record)
    for (const { pid } of left) sendSignal(pid, 'SIGKILL')
    return left.length === 0 && (await listSandboxProcesses(paths, record)).length === 0
  }, signalTimeoutMs)
  if (!isEnded) throw new Error(`Not all processes of the sandbox ${record.id} could be ended`)
}

function stopAll(paths: SandboxPaths, record: SandboxRecord): Promise<boolean> {
  let isQuick = true
  return signalUntilNone(
    async () => {
      const found = (await listSandboxProcesses(paths, record, isQuick)).filter(
        (each) => !isProcessStopped(each),
      )
      // Most are stopped at once, before the others are looked for.
      if (!isQuick || found.length > 0) return found
      isQuick = false
      return (await listSandboxProcesses(paths, record)).filter((each) => !isProcessStopped(each))
    },
    'SIGSTOP',
    signalTimeoutMs,
  )
}

/** Lower case when a debugger has stopped it. */
function isProcessStopped({ state }: Process): boolean {
  return state === 'T' || state === 't'
}
