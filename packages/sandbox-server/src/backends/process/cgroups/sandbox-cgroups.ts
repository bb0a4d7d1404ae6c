import { mkdir, rmdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Resources } from '../../backend.ts'
import { ignoreErrors, readSmallFile, waitUntil } from '../host/files.ts'
import { sendSignal } from '../host/processes.ts'
import { type CgroupHierarchy, cgroupLimits, tryWrite } from './cgroups.ts'

/** The groups of one sandbox, as directories, one in each hierarchy. They are told apart by the files in them. */
export type CgroupPaths = readonly string[]

/** Where the groups of a sandbox will be: unique for ledger and id, at the same place after a restart. */
export function cgroupPaths(
  hierarchies: readonly CgroupHierarchy[],
  ledgerId: string,
  id: string,
): CgroupPaths {
  return hierarchies.map(({ base }) => join(base, `slipway-${ledgerId.slice(0, 16)}-${id}`))
}

/** Makes empty groups with these limits. Says what went wrong, or nothing. */
export async function createCgroups(
  hierarchies: readonly CgroupHierarchy[],
  groups: CgroupPaths,
  resources: Resources,
): Promise<string | undefined> {
  // Limits of an earlier start must not stay, and some cannot be taken back.
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

/** The processes in the groups. */
export async function listCgroupProcesses(groups: CgroupPaths): Promise<readonly number[]> {
  const lists = await Promise.all(groups.map((group) => readSmallFile(join(group, 'cgroup.procs'))))
  const pids = lists.flatMap((list) => list?.split('\n') ?? []).map(Number)
  return [...new Set(pids.filter((pid) => pid > 0))]
}

const freezerValues = {
  'cgroup.freeze': { frozen: '1', thawed: '0' },
  'freezer.state': { frozen: 'FROZEN', thawed: 'THAWED' },
} as const

/** Version 2 first: it can be killed without being thawed. */
const freezerFiles = ['cgroup.freeze', 'freezer.state'] as const

/** Whether all processes stand still; undefined when these groups cannot freeze. */
export async function isFrozen(groups: CgroupPaths): Promise<boolean | undefined> {
  const freezer = await findFreezer(groups)
  if (freezer === undefined) return undefined
  if (freezer.file === 'freezer.state') return (await readSmallFile(freezer.path))?.trim() === 'FROZEN'
  return /^frozen 1$/m.test((await readSmallFile(join(freezer.group, 'cgroup.events'))) ?? '')
}

/** Asks all processes to stand still, or to go on. False when these groups cannot, or the kernel says no. */
export async function setFrozen(groups: CgroupPaths, isToFreeze: boolean): Promise<boolean> {
  const freezer = await findFreezer(groups)
  if (freezer === undefined) return false
  return tryWrite(freezer.path, freezerValues[freezer.file][isToFreeze ? 'frozen' : 'thawed'])
}

async function findFreezer(groups: CgroupPaths) {
  for (const file of freezerFiles) {
    for (const group of groups) {
      const path = join(group, file)
      if ((await readSmallFile(path)) !== undefined) return { group, file, path }
    }
  }
  return undefined
}

/** Ends all processes in the groups, frozen ones too. False when some are still there after the time. */
export async function killCgroups(groups: CgroupPaths, timeoutMs: number): Promise<boolean> {
  return waitUntil(async () => {
    if ((await listCgroupProcesses(groups)).length === 0) return true
    const isKilled = await Promise.all(groups.map((group) => tryWrite(join(group, 'cgroup.kill'), '1')))
    if (isKilled.includes(true)) return (await listCgroupProcesses(groups)).length === 0
    // What stands still cannot multiply.
    await setFrozen(groups, true)
    for (const pid of await listCgroupProcesses(groups)) sendSignal(pid, 'SIGKILL')
    await setFrozen(groups, false)
    return (await listCgroupProcesses(groups)).length === 0
  }, timeoutMs)
}

/** Removes empty groups. False when one is still in use after some seconds. */
export function removeCgroups(groups: CgroupPaths): Promise<boolean> {
  return waitUntil(async () => {
    const removed = await Promise.all(
      groups.map((group) =>
        rmdir(group).then(
          () => true,
          async () => (await readSmallFile(join(group, 'cgroup.procs'))) === undefined,
        ),
      ),
    )
    return !removed.includes(false)
  }, 5_000)
}

/** How many processes the kernel has ended for want of memory. */
export async function countOomKills(groups: CgroupPaths): Promise<number> {
  const files = groups.flatMap((group) => [join(group, 'memory.events'), join(group, 'memory.oom_control')])
  const texts = await Promise.all(files.map(readSmallFile))
  return texts.reduce((sum, text) => sum + Number(/^oom_kill (\d+)$/m.exec(text ?? '')?.[1] ?? 0), 0)
}
