import { readdir } from 'node:fs/promises'
import { isFrozen, killCgroups, listCgroupProcesses, setFrozen } from './cgroups/sandbox-cgroups.ts'
import { ignoreErrors, waitUntil } from './host/files.ts'
import {
  hasHomeBelow,
  listDescendants,
  listProcesses,
  type Process,
  readBootId,
  sendSignal,
  signalUntilNone,
} from './host/processes.ts'
import type { SandboxPaths } from './sandbox-paths.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import { findSupervisor } from './supervisor.ts'

/** All processes of one sandbox taken together: found, stopped, let go on, ended. */

const signalTimeoutMs = 15_000

/** Everything that runs, without the supervisors. */
async function listSandboxProcesses(paths: SandboxPaths, record: SandboxRecord): Promise<readonly Process[]> {
  const [everything, supervisors, inCgroups] = await Promise.all([
    listProcesses(),
    listSupervisors(paths, record),
    listCgroupProcesses(record.groups),
  ])
  const found = new Map<number, Process>()
  for (const supervisor of supervisors) {
    for (const each of listDescendants(everything, supervisor.pid)) found.set(each.pid, each)
    if (record.isJailed) continue
    // Only while its leader runs is it sure that the number of a session means this one.
    for (const each of everything) if (each.session === supervisor.pid) found.set(each.pid, each)
  }
  for (const each of everything) if (inCgroups.includes(each.pid)) found.set(each.pid, each)
  for (const each of record.isJailed ? [] : await filterMarked(everything, paths.files))
    found.set(each.pid, each)
  for (const { pid } of supervisors) found.delete(pid)
  return [...found.values()]
}

async function filterMarked(all: readonly Process[], folder: string): Promise<readonly Process[]> {
  const marked = await Promise.all(all.map((each) => hasHomeBelow(each, folder)))
  return all.filter((_, index) => marked[index])
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

/** Whether everything stands still. False when nothing runs. */
export async function isPaused(paths: SandboxPaths, record: SandboxRecord): Promise<boolean> {
  const frozen = await isFrozen(record.groups)
  if (frozen !== undefined) return frozen
  const all = await listSandboxProcesses(paths, record)
  return all.length > 0 && all.every(isProcessStopped)
}

/** Stops everything; when it resolves, nothing runs on. Rejects when that cannot be had, and lets go on what it had stopped. */
export async function pauseAll(paths: SandboxPaths, record: SandboxRecord): Promise<void> {
  const isStopped = (await setFrozen(record.groups, true))
    ? await waitUntil(async () => (await isFrozen(record.groups)) === true, signalTimeoutMs)
    : await stopAll(paths, record)
  if (isStopped) return
  await resumeAll(paths, record)
  throw new Error(`Not all processes of the sandbox ${record.id} could be stopped`)
}

export async function resumeAll(paths: SandboxPaths, record: SandboxRecord): Promise<void> {
  if (await setFrozen(record.groups, false)) return
  const isGoing = await signalUntilNone(
    async () => (await listSandboxProcesses(paths, record)).filter(isProcessStopped),
    'SIGCONT',
    signalTimeoutMs,
  )
  if (!isGoing) throw new Error(`Not all processes of the sandbox ${record.id} could be continued`)
}

/** Ends everything, the supervisors too. Rejects when something is left after some time. */
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

/** Again and again, for what was born meanwhile. */
function stopAll(paths: SandboxPaths, record: SandboxRecord): Promise<boolean> {
  return signalUntilNone(
    async () => (await listSandboxProcesses(paths, record)).filter((each) => !isProcessStopped(each)),
    'SIGSTOP',
    signalTimeoutMs,
  )
}

/** Small when a debugger holds it. */
function isProcessStopped({ state }: Process): boolean {
  return state === 'T' || state === 't'
}
