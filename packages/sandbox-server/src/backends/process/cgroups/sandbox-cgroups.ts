import { mkdir, rmdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Resources } from '../../backend.ts'
import { comesTrue, ignoring, textOf } from '../host/files.ts'
import { signal } from '../host/processes.ts'
import { type Hierarchy, isWritten, settingsOf } from './cgroups.ts'

/** The groups of one sandbox, as directories, one in each hierarchy. They are told apart by the files in them. */
export type Groups = readonly string[]

/** Where the groups of a sandbox will be: unique for ledger and id, at the same place after a restart. */
export function groupsOf(hierarchies: readonly Hierarchy[], ledgerId: string, id: string): Groups {
  return hierarchies.map(({ base }) => join(base, `slipway-${ledgerId.slice(0, 16)}-${id}`))
}

/** Makes empty groups with these limits. Says what went wrong, or nothing. */
export async function makeGroups(
  hierarchies: readonly Hierarchy[],
  groups: Groups,
  resources: Resources,
): Promise<string | undefined> {
  // Limits of an earlier start must not stay, and some cannot be taken back.
  await removeGroups(groups)
  for (const [index, hierarchy] of hierarchies.entries()) {
    const group = groups[index]
    if (group === undefined) continue
    await ignoring(['EEXIST'], mkdir(group))
    for (const { file, value, isOptional } of settingsOf(hierarchy, resources)) {
      if ((await isWritten(join(group, file), value)) || isOptional) continue
      return `The limit ${file} = ${value} was refused by ${basename(group)}`
    }
  }
  return undefined
}

/** The processes in the groups. */
export async function membersOf(groups: Groups): Promise<readonly number[]> {
  const lists = await Promise.all(groups.map((group) => textOf(join(group, 'cgroup.procs'))))
  const pids = lists.flatMap((list) => list?.split('\n') ?? []).map(Number)
  return [...new Set(pids.filter((pid) => pid > 0))]
}

const states = {
  'cgroup.freeze': { frozen: '1', thawed: '0' },
  'freezer.state': { frozen: 'FROZEN', thawed: 'THAWED' },
} as const

/** Version 2 first: it can be killed without being thawed. */
const freezers = ['cgroup.freeze', 'freezer.state'] as const

/** Whether all processes stand still; undefined when these groups cannot freeze. */
export async function isFrozen(groups: Groups): Promise<boolean | undefined> {
  const freezer = await freezerOf(groups)
  if (freezer === undefined) return undefined
  if (freezer.file === 'freezer.state') return (await textOf(freezer.path))?.trim() === 'FROZEN'
  return /^frozen 1$/m.test((await textOf(join(freezer.group, 'cgroup.events'))) ?? '')
}

/** Asks all processes to stand still, or to go on. False when these groups cannot, or the kernel says no. */
export async function setFrozen(groups: Groups, isToFreeze: boolean): Promise<boolean> {
  const freezer = await freezerOf(groups)
  if (freezer === undefined) return false
  return isWritten(freezer.path, states[freezer.file][isToFreeze ? 'frozen' : 'thawed'])
}

async function freezerOf(groups: Groups) {
  for (const file of freezers) {
    for (const group of groups) {
      const path = join(group, file)
      if ((await textOf(path)) !== undefined) return { group, file, path }
    }
  }
  return undefined
}

/** Ends all processes in the groups, frozen ones too. False when some are still there after the time. */
export async function killGroups(groups: Groups, timeoutMs: number): Promise<boolean> {
  return comesTrue(async () => {
    if ((await membersOf(groups)).length === 0) return true
    const isKilled = await Promise.all(groups.map((group) => isWritten(join(group, 'cgroup.kill'), '1')))
    if (isKilled.includes(true)) return (await membersOf(groups)).length === 0
    // What stands still cannot multiply.
    await setFrozen(groups, true)
    for (const pid of await membersOf(groups)) signal(pid, 'SIGKILL')
    await setFrozen(groups, false)
    return (await membersOf(groups)).length === 0
  }, timeoutMs)
}

/** Removes empty groups. False when one is still in use after some seconds. */
export function removeGroups(groups: Groups): Promise<boolean> {
  return comesTrue(async () => {
    const gone = await Promise.all(
      groups.map((group) =>
        rmdir(group).then(
          () => true,
          async () => (await textOf(join(group, 'cgroup.procs'))) === undefined,
        ),
      ),
    )
    return !gone.includes(false)
  }, 5_000)
}

/** How many processes the kernel has ended for want of memory. */
export async function outOfMemoryKills(groups: Groups): Promise<number> {
  const files = groups.flatMap((group) => [join(group, 'memory.events'), join(group, 'memory.oom_control')])
  const texts = await Promise.all(files.map(textOf))
  return texts.reduce((sum, text) => sum + Number(/^oom_kill (\d+)$/m.exec(text ?? '')?.[1] ?? 0), 0)
}
