import { readdir } from 'node:fs/promises'
import { isFrozen, killGroups, membersOf, setFrozen } from './cgroups/sandbox-cgroups.ts'
import { comesTrue, ignoring } from './host/files.ts'
import {
  bootId,
  descendantsOf,
  isMarked,
  type Process,
  processes,
  signal,
  signalAll,
} from './host/processes.ts'
import type { Place } from './sandbox-paths.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import { supervisorOf } from './supervisor.ts'

/** All processes of one sandbox taken together: found, stopped, let go on, ended. */

const patienceMs = 15_000

/** Everything that runs, without the supervisors. */
async function allOf(place: Place, record: SandboxRecord): Promise<readonly Process[]> {
  const [everything, supervisors, grouped] = await Promise.all([
    processes(),
    supervisorsOf(place, record),
    membersOf(record.groups),
  ])
  const found = new Map<number, Process>()
  for (const supervisor of supervisors) {
    for (const each of descendantsOf(everything, supervisor.pid)) found.set(each.pid, each)
    if (record.isJailed) continue
    // Only while its leader runs is it sure that the number of a session means this one.
    for (const each of everything) if (each.session === supervisor.pid) found.set(each.pid, each)
  }
  for (const each of everything) if (grouped.includes(each.pid)) found.set(each.pid, each)
  for (const each of record.isJailed ? [] : await markedOf(everything, place.files)) found.set(each.pid, each)
  for (const { pid } of supervisors) found.delete(pid)
  return [...found.values()]
}

async function markedOf(all: readonly Process[], folder: string): Promise<readonly Process[]> {
  const marked = await Promise.all(all.map((each) => isMarked(each, folder)))
  return all.filter((_, index) => marked[index])
}

/** The supervisors of all starts that still run. */
export async function supervisorsOf(place: Place, record: SandboxRecord): Promise<readonly Process[]> {
  if (record.bootId !== (await bootId())) return []
  const epochs = (await namesOf(place)).flatMap((name) => /^pid\.(.+)$/.exec(name)?.[1] ?? [])
  const found = await Promise.all(epochs.map((epoch) => supervisorOf(place, epoch)))
  return found.filter((each) => each !== undefined)
}

export async function namesOf(place: Place): Promise<readonly string[]> {
  return (await ignoring(['ENOENT'], readdir(place.root))) ?? []
}

/** Whether everything stands still. False when nothing runs. */
export async function isPaused(place: Place, record: SandboxRecord): Promise<boolean> {
  const frozen = await isFrozen(record.groups)
  if (frozen !== undefined) return frozen
  const all = await allOf(place, record)
  return all.length > 0 && all.every(standsStill)
}

/** Stops everything; when it resolves, nothing runs on. Rejects when that cannot be had, and lets go on what it had stopped. */
export async function pauseAll(place: Place, record: SandboxRecord): Promise<void> {
  const isStopped = (await setFrozen(record.groups, true))
    ? await comesTrue(async () => (await isFrozen(record.groups)) === true, patienceMs)
    : await stopAll(place, record)
  if (isStopped) return
  await resumeAll(place, record)
  throw new Error(`Not all processes of the sandbox ${record.id} could be stopped`)
}

export async function resumeAll(place: Place, record: SandboxRecord): Promise<void> {
  if (await setFrozen(record.groups, false)) return
  const isGoing = await signalAll(
    async () => (await allOf(place, record)).filter(standsStill),
    'SIGCONT',
    patienceMs,
  )
  if (!isGoing) throw new Error(`Not all processes of the sandbox ${record.id} could be continued`)
}

/** Ends everything, the supervisors too. Rejects when something is left after some time. */
export async function endAll(place: Place, record: SandboxRecord): Promise<void> {
  let isEnded = await killGroups(record.groups, patienceMs)
  if (!record.isJailed) await stopAll(place, record)
  isEnded &&= await signalAll(() => allOf(place, record), 'SIGKILL', patienceMs)
  isEnded &&= await comesTrue(async () => {
    const left = await supervisorsOf(place, record)
    for (const { pid } of left) signal(pid, 'SIGKILL')
    return left.length === 0 && (await allOf(place, record)).length === 0
  }, patienceMs)
  if (!isEnded) throw new Error(`Not all processes of the sandbox ${record.id} could be ended`)
}

/** Again and again, for what was born meanwhile. */
function stopAll(place: Place, record: SandboxRecord): Promise<boolean> {
  return signalAll(
    async () => (await allOf(place, record)).filter((each) => !standsStill(each)),
    'SIGSTOP',
    patienceMs,
  )
}

/** Small when a debugger holds it. */
function standsStill({ state }: Process): boolean {
  return state === 'T' || state === 't'
}
