import { existsSync, readFileSync } from 'node:fs'
import { mkdir, rmdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Resources } from '../../backend.ts'
import { ignoreErrors, readSmallFile, succeeds, waitUntil } from '../host/files.ts'
import { sendSignal } from '../host/processes.ts'
import { type CgroupHierarchy, cgroupLimits, tryWrite } from './cgroups.ts'

/** The directory of each group of a sandbox: unique for ledger and id, and the same after a restart. */
export function cgroupPaths(hierarchies: readonly CgroupHierarchy[], ledgerId: string, id: string) {
  return hierarchies.map(({ base }) => join(base, `slipway-${ledgerId.slice(0, 16)}-${id}`))
}

/** Creates empty groups with these limits. Returns why that failed. */
export async function createCgroups(
  hierarchies: readonly CgroupHierarchy[],
  groups: readonly string[],
  resources: Resources,
): Promise<string | undefined> {
  // Removes limits of an earlier start: some cannot be reset.
  await removeCgroups(groups)
  for (const [index, hierarchy] of hierarchies.entries()) {
    const group = groups[index]
    if (group === undefined) continue
    await ignoreErrors(['EEXIST'], mkdir(group))
    for (const { file, value, isOptional } of cgroupLimits(hierarchy, resources)) {
      if ((await tryWrite(join(group, file), value)) || isOptional) continue
      return `The limit ${file} = ${value} was refused by ${basename(group)}`
    }
  }
  return undefined
}

export async function listCgroupProcesses(groups: readonly string[]): Promise<readonly number[]> {
  const lists = await Promise.all(groups.map((group) => readSmallFile(join(group, 'cgroup.procs'))))
  const pids = lists.flatMap((list) => list?.split('\n') ?? []).map(Number)
  return [...new Set(pids.filter((pid) => pid > 0))]
}

/** Version 2 first: it can be killed without being thawed. */
const freezers = [
  { file: 'cgroup.freeze', frozen: '1', thawed: '0', state: 'cgroup.events', isFrozen: /^frozen 1$/m },
  {
    file: 'freezer.state',
    frozen: 'FROZEN',
    thawed: 'THAWED',
    state: 'freezer.state',
    isFrozen: /^FROZEN$/m,
  },
] as const

/**
 * Whether all processes are frozen; undefined when these groups cannot freeze. Synchronous: the kernel
 * answers from memory.
 */
export function isFrozen(groups: readonly string[]): boolean | undefined {
  const freezer = findFreezer(groups)
  if (freezer === undefined) return undefined
  try {
    return freezer.isFrozen.test(readFileSync(join(freezer.group, freezer.state), 'utf8'))
  } catch {
    // Its processes have ended, and the group is being removed.
    return false
  }
}

/** Asks all processes to freeze or to thaw. False when these groups cannot, or the kernel refuses. */
export async function setFrozen(groups: readonly string[], isToFreeze: boolean): Promise<boolean> {
  const freezer = findFreezer(groups)
  if (freezer === undefined) return false
  return await tryWrite(join(freezer.group, freezer.file), isToFreeze ? freezer.frozen : freezer.thawed)
}

function findFreezer(groups: readonly string[]) {
  for (const freezer of freezers) {
    for (const group of groups) if (existsSync(join(group, freezer.file))) return { ...freezer, group }
  }
  return undefined
}

/** Ends all processes in the groups, also frozen ones. False when some are left after the time. */
export function killCgroups(groups: readonly string[], timeoutMs: number): Promise<boolean> {
  const isEmpty = async () => (await listCgroupProcesses(groups)).length === 0
  return waitUntil(async () => {
    if (await isEmpty()) return true
    const isKilled = await Promise.all(groups.map((group) => tryWrite(join(group, 'cgroup.kill'), '1')))
    if (isKilled.includes(true)) return await isEmpty()
    // Frozen processes cannot fork.
    await setFrozen(groups, true)
    for (const pid of await listCgroupProcesses(groups)) sendSignal(pid, 'SIGKILL')
    await setFrozen(groups, false)
    return await isEmpty()
  }, timeoutMs)
}

/** Removes empty groups. False when one is still in use after some seconds. */
export function removeCgroups(groups: readonly string[]): Promise<boolean> {
  const remove = async (group: string) =>
    (await succeeds(rmdir(group))) || (await readSmallFile(join(group, 'cgroup.procs'))) === undefined
  return waitUntil(async () => !(await Promise.all(groups.map(remove))).includes(false), 5_000)
}

/** Number of processes that the kernel has ended for lack of memory. */
export async function countOomKills(groups: readonly string[]): Promise<number> {
  const files = groups.flatMap((group) => [join(group, 'memory.events'), join(group, 'memory.oom_control')])
  const texts = await Promise.all(files.map(readSmallFile))
  return texts.reduce((sum, text) => sum + Number(/^oom_kill (\d+)$/m.exec(text ?? '')?.[1] ?? 0), 0)
}
