import { randomUUID } from 'node:crypto'
import { mkdir, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Resources } from '../../backend.ts'
import { textOf } from '../host/files.ts'
import { run } from '../host/run-program.ts'

/** What groups of processes (cgroups) can do for a sandbox. */
export type Power = 'memory' | 'pids' | 'cpu' | 'freeze'

/** A tree of groups of the kernel in which this process may make groups. Version 1 has one for each power or two. */
export interface Hierarchy {
  readonly version: 1 | 2
  /** The directory in which groups are made. */
  readonly base: string
  readonly powers: readonly Power[]
}

/** The file of a group that sets a limit, and what is written to it. */
export interface Setting {
  readonly file: string
  readonly value: string
  /** Not every kernel has it; the limit holds without it. */
  readonly isOptional?: boolean
}

const periodUs = 100_000

/** What is to be written into a group for these limits, in order. */
export function settingsOf({ version, powers }: Hierarchy, resources: Resources): Setting[] {
  const { memoryBytes, maxProcesses, cpus } = resources
  const found: Setting[] = []
  if (powers.includes('memory') && memoryBytes !== undefined) {
    const value = String(Math.floor(memoryBytes))
    found.push(
      ...(version === 2
        ? [
            { file: 'memory.max', value },
            { file: 'memory.swap.max', value: '0', isOptional: true },
          ]
        : [
            { file: 'memory.limit_in_bytes', value },
            { file: 'memory.memsw.limit_in_bytes', value, isOptional: true },
          ]),
    )
  }
  if (powers.includes('pids') && maxProcesses !== undefined) {
    found.push({ file: 'pids.max', value: String(Math.floor(maxProcesses)) })
  }
  if (powers.includes('cpu') && cpus !== undefined) {
    const quotaUs = Math.max(1_000, Math.round(cpus * periodUs))
    found.push(
      ...(version === 2
        ? [{ file: 'cpu.max', value: `${quotaUs} ${periodUs}` }]
        : [
            { file: 'cpu.cfs_period_us', value: String(periodUs) },
            { file: 'cpu.cfs_quota_us', value: String(quotaUs) },
          ]),
    )
  }
  return found
}

/** The trees in which groups can be made here, each power once. Tried, not guessed; none: an empty list. */
export async function findHierarchies(): Promise<readonly Hierarchy[]> {
  const [mounts, own] = await Promise.all([textOf('/proc/self/mountinfo'), textOf('/proc/self/cgroup')])
  const found: Hierarchy[] = []
  const have = new Set<Power>()
  for (const tree of treesOf(mounts ?? '', own ?? '')) {
    const usable = await usableOf(tree)
    const powers = usable?.powers.filter((power) => !have.has(power)) ?? []
    if (usable === undefined || powers.length === 0) continue
    found.push({ ...usable, powers })
    for (const power of powers) have.add(power)
  }
  return found
}

interface Tree {
  readonly version: 1 | 2
  readonly mount: string
  /** The group of this process, from the mount on. */
  readonly own: string
  /** Of version 1. */
  readonly controllers: readonly string[]
}

const useful: readonly string[] = ['memory', 'pids', 'cpu', 'freezer']

/** From `/proc/self/mountinfo` and `/proc/self/cgroup`; version 2 first. */
export function treesOf(mountinfo: string, cgroup: string): Tree[] {
  const trees = mountinfo.split('\n').flatMap((line): Tree[] => {
    const [left = '', right = ''] = line.split(' - ')
    const [, , , root = '/', mount = ''] = left.split(' ')
    const [type, , options = ''] = right.split(' ')
    if (type !== 'cgroup' && type !== 'cgroup2') return []
    const version = type === 'cgroup2' ? 2 : 1
    const controllers = version === 2 ? [] : options.split(',').filter((name) => useful.includes(name))
    if (version === 1 && controllers.length === 0) return []
    const line2 = cgroup.split('\n').find((each) => {
      const [, names = ''] = each.split(':')
      return version === 2
        ? each.startsWith('0::')
        : names.split(',').some((name) => name !== '' && controllers.includes(name))
    })
    const path = line2?.split(':').slice(2).join(':') ?? '/'
    const own = root !== '/' && path.startsWith(root) ? path.slice(root.length) : path
    return [{ version, mount, own: own === '' ? '/' : own, controllers }]
  })
  return trees.toSorted((a, b) => b.version - a.version)
}

/**
 * At the top of the tree, where a group outlives the service that the server is part of; else in the server's own group,
 * where somebody has given it that.
 */
async function usableOf(tree: Tree): Promise<Hierarchy | undefined> {
  for (const base of new Set([tree.mount, join(tree.mount, tree.own)])) {
    if (tree.version === 2) await handDown(base)
    const powers = await tried(base, tree)
    if (powers.length > 0) return { version: tree.version, base, powers }
  }
  return undefined
}

/** Lets groups below `base` have limits. A group that has processes itself must be emptied first; only our own is moved. */
async function handDown(base: string): Promise<void> {
  const [has, hands] = await Promise.all(
    ['cgroup.controllers', 'cgroup.subtree_control'].map((file) => textOf(join(base, file))),
  )
  for (const name of ['memory', 'pids', 'cpu']) {
    if (!words(has).includes(name) || words(hands).includes(name)) continue
    const enable = () => isWritten(join(base, 'cgroup.subtree_control'), `+${name}`)
    if (await enable()) continue
    const aside = join(base, 'slipway-server')
    await mkdir(aside).catch(() => {})
    if (await isWritten(join(aside, 'cgroup.procs'), String(process.pid))) await enable()
  }
}

/** Makes a group, limits it and sends a process through it. */
async function tried(base: string, tree: Tree): Promise<Power[]> {
  const group = join(base, `slipway-trial-${randomUUID()}`)
  const isMade = await mkdir(group).then(
    () => true,
    () => false,
  )
  if (!isMade) return []
  try {
    const joined = await run('/bin/sh', ['-c', 'echo 0 > "$0"', join(group, 'cgroup.procs')])
    if (!joined.isOk) return []
    const all = ['memory', 'pids', 'cpu', 'freeze'] as const
    const kept = await Promise.all(
      all.map(async (power) => ((await keeps(group, tree.version, power)) ? [power] : [])),
    )
    return kept.flat()
  } finally {
    await rmdir(group).catch(() => {})
  }
}

const trialLimits = { memoryBytes: 1 << 28, maxProcesses: 77, cpus: 0.5 }

async function keeps(group: string, version: 1 | 2, power: Power): Promise<boolean> {
  if (power === 'freeze') {
    return (await textOf(join(group, version === 2 ? 'cgroup.freeze' : 'freezer.state'))) !== undefined
  }
  for (const { file, value, isOptional } of settingsOf(
    { version, base: group, powers: [power] },
    trialLimits,
  )) {
    if (isOptional) continue
    if (!(await isWritten(join(group, file), value))) return false
    if ((await textOf(join(group, file)))?.trim() !== value) return false
  }
  return true
}

/** Whether a file of the kernel took a value. */
export function isWritten(path: string, value: string): Promise<boolean> {
  return writeFile(path, value, { flag: 'r+' }).then(
    () => true,
    () => false,
  )
}

function words(text: string | undefined): string[] {
  return text?.trim().split(/\s+/) ?? []
}
