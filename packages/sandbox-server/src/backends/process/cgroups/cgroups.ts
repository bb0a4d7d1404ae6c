import { randomUUID } from 'node:crypto'
import { mkdir, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Resources } from '../../backend.ts'
import { readSmallFile, succeeds } from '../host/files.ts'
import { runProgram } from '../host/run-program.ts'

const features = ['memory', 'pids', 'cpu', 'freeze'] as const
/** What control groups (cgroups) can do for a sandbox. */
type CgroupFeature = (typeof features)[number]

export const limitedResources = { memory: 'memoryBytes', pids: 'maxProcesses', cpu: 'cpus' } as const

/** A hierarchy in which this process may create groups. Version 1 has one for one or two controllers. */
export interface CgroupHierarchy {
  readonly version: 1 | 2
  /** The directory in which groups are created. */
  readonly base: string
  readonly features: readonly CgroupFeature[]
}

interface LimitFile {
  readonly version: 1 | 2
  readonly feature: keyof typeof limitedResources
  readonly file: string
  readonly value: (amount: number) => string
  /** Not every kernel has the file; the limit holds without it. */
  readonly isOptional?: boolean
}

const periodUs = 100_000
const whole = (amount: number) => String(Math.floor(amount))
const period = () => String(periodUs)
const quota = (cpus: number) => String(Math.max(1_000, Math.round(cpus * periodUs)))

/** The files of a group that set limits, in the order of writing. */
const limitFiles: readonly LimitFile[] = [
  { version: 2, feature: 'memory', file: 'memory.max', value: whole },
  { version: 2, feature: 'memory', file: 'memory.swap.max', value: () => '0', isOptional: true },
  { version: 2, feature: 'pids', file: 'pids.max', value: whole },
  { version: 2, feature: 'cpu', file: 'cpu.max', value: (cpus) => `${quota(cpus)} ${periodUs}` },
  { version: 1, feature: 'memory', file: 'memory.limit_in_bytes', value: whole },
  { version: 1, feature: 'memory', file: 'memory.memsw.limit_in_bytes', value: whole, isOptional: true },
  { version: 1, feature: 'pids', file: 'pids.max', value: whole },
  { version: 1, feature: 'cpu', file: 'cpu.cfs_period_us', value: period },
  { version: 1, feature: 'cpu', file: 'cpu.cfs_quota_us', value: quota },
]

/** What is written into a group for these limits, in this order. */
export function cgroupLimits(hierarchy: Omit<CgroupHierarchy, 'base'>, resources: Resources) {
  return limitFiles.flatMap(({ version, feature, file, value, isOptional = false }) => {
    const amount = resources[limitedResources[feature]]
    const applies = version === hierarchy.version && hierarchy.features.includes(feature)
    return applies && amount !== undefined ? [{ file, value: value(amount), isOptional }] : []
  })
}

/** The hierarchies in which groups can be created here, found by trying; each feature once. */
export async function detectCgroupHierarchies(): Promise<readonly CgroupHierarchy[]> {
  const [mounts = '', ownCgroups = ''] = await Promise.all(
    ['/proc/self/mountinfo', '/proc/self/cgroup'].map(readSmallFile),
  )
  const found: CgroupHierarchy[] = []
  for (const mount of parseCgroupMounts(mounts, ownCgroups)) {
    const usable = await detectHierarchy(mount)
    const covered = found.flatMap((hierarchy) => hierarchy.features)
    const added = usable?.features.filter((feature) => !covered.includes(feature)) ?? []
    if (usable !== undefined && added.length > 0) found.push({ ...usable, features: added })
  }
  return found
}

interface CgroupMount {
  readonly version: 1 | 2
  readonly mount: string
  /** The group of this process, below the mount. */
  readonly own: string
  readonly controllers: readonly string[]
}

const usedControllers: readonly string[] = ['memory', 'pids', 'cpu', 'freezer']

/** From `/proc/self/mountinfo` and `/proc/self/cgroup`; version 2 first. */
export function parseCgroupMounts(mountinfo: string, cgroup: string): CgroupMount[] {
  const ownCgroups = cgroup.split('\n').map((line) => line.split(':'))
  const mounts = mountinfo.split('\n').flatMap((line): CgroupMount[] => {
    const [left = '', right = ''] = line.split(' - ')
    const [, , , root = '/', mount = ''] = left.split(' ')
    const [type, , options = ''] = right.split(' ')
    const version = type === 'cgroup2' ? 2 : 1
    const controllers =
      type === 'cgroup' ? options.split(',').filter((name) => usedControllers.includes(name)) : []
    if (version === 1 && controllers.length === 0) return []
    const [, , ...pathParts] =
      ownCgroups.find(([id, names = '']) =>
        version === 2
          ? id === '0' && names === ''
          : names.split(',').some((name) => controllers.includes(name)),
      ) ?? []
    const path = pathParts.join(':') || '/'
    const own = root !== '/' && path.startsWith(root) ? path.slice(root.length) || '/' : path
    return [{ version, mount, own, controllers }]
  })
  return mounts.toSorted((a, b) => b.version - a.version)
}

/** At the top, where groups outlive the service of the server; else in its own group, if delegated. */
async function detectHierarchy({ version, mount, own }: CgroupMount): Promise<CgroupHierarchy | undefined> {
  for (const base of new Set([mount, join(mount, own)])) {
    if (version === 2) await delegateControllers(base)
    const supported = await detectFeatures(base, version)
    if (supported.length > 0) return { version, base, features: supported }
  }
  return undefined
}

/** Lets groups below `base` have limits. Moves this process, as a group with processes cannot delegate. */
async function delegateControllers(base: string): Promise<void> {
  const subtreeControl = join(base, 'cgroup.subtree_control')
  const texts = await Promise.all([join(base, 'cgroup.controllers'), subtreeControl].map(readSmallFile))
  const [available = [], delegated = []] = texts.map((text) => text?.trim().split(/\s+/))
  for (const name of Object.keys(limitedResources)) {
    if (!available.includes(name) || delegated.includes(name)) continue
    if (await tryWrite(subtreeControl, `+${name}`)) continue
    const serverGroup = join(base, 'slipway-server')
    await succeeds(mkdir(serverGroup))
    if (await tryWrite(join(serverGroup, 'cgroup.procs'), String(process.pid)))
      await tryWrite(subtreeControl, `+${name}`)
  }
}

/** Creates a group, limits it and moves a process into it. */
async function detectFeatures(base: string, version: 1 | 2): Promise<CgroupFeature[]> {
  const group = join(base, `slipway-trial-${randomUUID()}`)
  if (!(await succeeds(mkdir(group)))) return []
  try {
    const attempt = await runProgram('/bin/sh', ['-c', 'echo 0 > "$0"', join(group, 'cgroup.procs')])
    if (!attempt.isOk) return []
    const isSupported = await Promise.all(features.map((feature) => supportsFeature(group, version, feature)))
    return features.filter((_, index) => isSupported[index])
  } finally {
    await succeeds(rmdir(group))
  }
}

async function supportsFeature(group: string, version: 1 | 2, feature: CgroupFeature): Promise<boolean> {
  if (feature === 'freeze') {
    return (await readSmallFile(join(group, version === 2 ? 'cgroup.freeze' : 'freezer.state'))) !== undefined
  }
  const probeLimits = { memoryBytes: 1 << 28, maxProcesses: 77, cpus: 0.5 }
  for (const { file, value, isOptional } of cgroupLimits({ version, features: [feature] }, probeLimits)) {
    const path = join(group, file)
    if (isOptional) continue
    if (!(await tryWrite(path, value)) || (await readSmallFile(path))?.trim() !== value) return false
  }
  return true
}

/** Whether a file of the kernel accepts a value. */
export function tryWrite(path: string, value: string): Promise<boolean> {
  return succeeds(writeFile(path, value, { flag: 'r+' }))
}
