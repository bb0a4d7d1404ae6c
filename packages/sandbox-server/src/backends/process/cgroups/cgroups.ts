import { randomUUID } from 'node:crypto'
import { mkdir, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Resources } from '../../backend.ts'
import { readSmallFile } from '../host/files.ts'
import { runProgram } from '../host/run-program.ts'

/** What groups of processes (cgroups) can do for a sandbox. */
export type CgroupFeature = 'memory' | 'pids' | 'cpu' | 'freeze'

/** A tree of groups of the kernel in which this process may make groups. Version 1 has one for each power or two. */
export interface CgroupHierarchy {
  readonly version: 1 | 2
  /** The directory in which groups are made. */
  readonly base: string
  readonly features: readonly CgroupFeature[]
}

/** The file of a group that sets a limit, and what is written to it. */
export interface CgroupLimit {
  readonly file: string
  readonly value: string
  /** Not every kernel has it; the limit holds without it. */
  readonly isOptional?: boolean
}

const periodUs = 100_000

/** What is to be written into a group for these limits, in order. */
export function cgroupLimits({ version, features }: CgroupHierarchy, resources: Resources): CgroupLimit[] {
  const { memoryBytes, maxProcesses, cpus } = resources
  const limits: CgroupLimit[] = []
  if (features.includes('memory') && memoryBytes !== undefined) {
    const value = String(Math.floor(memoryBytes))
    limits.push(
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
  if (features.includes('pids') && maxProcesses !== undefined) {
    limits.push({ file: 'pids.max', value: String(Math.floor(maxProcesses)) })
  }
  if (features.includes('cpu') && cpus !== undefined) {
    const quotaUs = Math.max(1_000, Math.round(cpus * periodUs))
    limits.push(
      ...(version === 2
        ? [{ file: 'cpu.max', value: `${quotaUs} ${periodUs}` }]
        : [
            { file: 'cpu.cfs_period_us', value: String(periodUs) },
            { file: 'cpu.cfs_quota_us', value: String(quotaUs) },
          ]),
    )
  }
  return limits
}

/** The trees in which groups can be made here, each power once. Tried, not guessed; none: an empty list. */
export async function detectCgroupHierarchies(): Promise<readonly CgroupHierarchy[]> {
  const [mounts, ownCgroups] = await Promise.all([
    readSmallFile('/proc/self/mountinfo'),
    readSmallFile('/proc/self/cgroup'),
  ])
  const found: CgroupHierarchy[] = []
  const covered = new Set<CgroupFeature>()
  for (const tree of parseCgroupMounts(mounts ?? '', ownCgroups ?? '')) {
    const usable = await detectHierarchy(tree)
    const features = usable?.features.filter((power) => !covered.has(power)) ?? []
    if (usable === undefined || features.length === 0) continue
    found.push({ ...usable, features })
    for (const power of features) covered.add(power)
  }
  return found
}

interface CgroupMount {
  readonly version: 1 | 2
  readonly mount: string
  /** The group of this process, from the mount on. */
  readonly own: string
  /** Of version 1. */
  readonly controllers: readonly string[]
}

const usedControllers: readonly string[] = ['memory', 'pids', 'cpu', 'freezer']

/** From `/proc/self/mountinfo` and `/proc/self/cgroup`; version 2 first. */
export function parseCgroupMounts(mountinfo: string, cgroup: string): CgroupMount[] {
  const mounts = mountinfo.split('\n').flatMap((line): CgroupMount[] => {
    const [left = '', right = ''] = line.split(' - ')
    const [, , , root = '/', mount = ''] = left.split(' ')
    const [type, , options = ''] = right.split(' ')
    if (type !== 'cgroup' && type !== 'cgroup2') return []
    const version = type === 'cgroup2' ? 2 : 1
    const controllers =
      version === 2 ? [] : options.split(',').filter((name) => usedControllers.includes(name))
    if (version === 1 && controllers.length === 0) return []
    const cgroupLine = cgroup.split('\n').find((each) => {
      const [, names = ''] = each.split(':')
      return version === 2
        ? each.startsWith('0::')
        : names.split(',').some((name) => name !== '' && controllers.includes(name))
    })
    const path = cgroupLine?.split(':').slice(2).join(':') ?? '/'
    const own = root !== '/' && path.startsWith(root) ? path.slice(root.length) : path
    return [{ version, mount, own: own === '' ? '/' : own, controllers }]
  })
  return mounts.toSorted((a, b) => b.version - a.version)
}

/**
 * At the top of the tree, where a group outlives the service that the server is part of; else in the server's own group,
 * where somebody has given it that.
 */
async function detectHierarchy(cgroupMount: CgroupMount): Promise<CgroupHierarchy | undefined> {
  for (const base of new Set([cgroupMount.mount, join(cgroupMount.mount, cgroupMount.own)])) {
    if (cgroupMount.version === 2) await delegateControllers(base)
    const features = await detectFeatures(base, cgroupMount)
    if (features.length > 0) return { version: cgroupMount.version, base, features }
  }
  return undefined
}

/** Lets groups below `base` have limits. A group that has processes itself must be emptied first; only our own is moved. */
async function delegateControllers(base: string): Promise<void> {
  const [available, delegated] = await Promise.all(
    ['cgroup.controllers', 'cgroup.subtree_control'].map((file) => readSmallFile(join(base, file))),
  )
  for (const name of ['memory', 'pids', 'cpu']) {
    if (!splitWords(available).includes(name) || splitWords(delegated).includes(name)) continue
    const enable = () => tryWrite(join(base, 'cgroup.subtree_control'), `+${name}`)
    if (await enable()) continue
    const serverGroup = join(base, 'slipway-server')
    await mkdir(serverGroup).catch(() => {})
    if (await tryWrite(join(serverGroup, 'cgroup.procs'), String(process.pid))) await enable()
  }
}

/** Makes a group, limits it and sends a process through it. */
async function detectFeatures(base: string, cgroupMount: CgroupMount): Promise<CgroupFeature[]> {
  const group = join(base, `slipway-trial-${randomUUID()}`)
  const isCreated = await mkdir(group).then(
    () => true,
    () => false,
  )
  if (!isCreated) return []
  try {
    const attempt = await runProgram('/bin/sh', ['-c', 'echo 0 > "$0"', join(group, 'cgroup.procs')])
    if (!attempt.isOk) return []
    const all = ['memory', 'pids', 'cpu', 'freeze'] as const
    const supported = await Promise.all(
      all.map(async (power) => ((await supportsFeature(group, cgroupMount.version, power)) ? [power] : [])),
    )
    return supported.flat()
  } finally {
    await rmdir(group).catch(() => {})
  }
}

const probeLimits = { memoryBytes: 1 << 28, maxProcesses: 77, cpus: 0.5 }

async function supportsFeature(group: string, version: 1 | 2, feature: CgroupFeature): Promise<boolean> {
  if (feature === 'freeze') {
    return (await readSmallFile(join(group, version === 2 ? 'cgroup.freeze' : 'freezer.state'))) !== undefined
  }
  for (const { file, value, isOptional } of cgroupLimits(
    { version, base: group, features: [feature] },
    probeLimits,
  )) {
    if (isOptional) continue
    if (!(await tryWrite(join(group, file), value))) return false
    if ((await readSmallFile(join(group, file)))?.trim() !== value) return false
  }
  return true
}

/** Whether a file of the kernel took a value. */
export function tryWrite(path: string, value: string): Promise<boolean> {
  return writeFile(path, value, { flag: 'r+' }).then(
    () => true,
    () => false,
  )
}

function splitWords(text: string | undefined): string[] {
  return text?.trim().split(/\s+/) ?? []
}
