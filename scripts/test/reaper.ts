import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isRecord, parseJson } from '@slipway/shared/json'

// A run of tests or of a benchmark leaves nothing behind, however it ends: SIGKILL of its runner included.
//
// The runner keeps all files below one temporary folder and starts a reaper, a program in its own session
// that waits for the end of its input: the kernel closes that pipe whatever kills the runner. Then the reaper
// 1. ends the runner's child, if one was named, with SIGTERM to its process group: wrappers of that child may
//    remove what no folder shows (containers, network interfaces);
// 2. kills all processes that belong to the folder: those with it in their arguments, environment or mounts,
//    the members of the control groups of sandboxes below it, and their descendants;
// 3. unmounts what is mounted below it, and removes it.
// A process belongs to the folder as soon as it inherits TMPDIR; programs of sandboxes, which do not, have the
// folder among their mounts or are in a control group.

const calmRounds = 3
const maxRounds = 300
const roundMs = 100
const maxChildMs = 30_000

export interface Reaper {
  /** The process group that is asked to end first. */
  watch(group: number): void
  /** Starts reaping. Without it the end of this process does. Resolves when nothing is left. */
  reap(): Promise<void>
}

export function startReaper(folder: string): Reaper {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), folder], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  child.unref()
  const input: unknown = child.stdin
  // A pipe has no public type with `unref`; it must not keep the runner alive.
  if (isRecord(input) && typeof input.unref === 'function') input.unref()
  return {
    watch: (group) => void child.stdin.write(`${group}\n`),
    async reap() {
      child.ref()
      child.stdin.end()
      await once(child, 'exit')
    },
  }
}

async function reap(folder: string, group: number | undefined): Promise<void> {
  if (group !== undefined) await endGroup(group)
  // A process that is killed may just have started another.
  for (let round = 0, calm = 0; round < maxRounds && calm < calmRounds; round++) {
    const groups = listCgroups(folder)
    const members = groups.flatMap((path) => readText(join(path, 'cgroup.procs')).split('\n').map(Number))
    const pids = new Set([...listProcesses(folder), ...members].filter((pid) => pid > 1))
    for (const pid of pids) kill(pid, 'SIGKILL')
    for (const path of groups) thaw(path)
    calm = pids.size === 0 ? calm + 1 : 0
    await sleep(roundMs)
  }
  for (const path of listCgroups(folder)) removeGroup(path)
  for (const place of listMounts(folder)) spawnSync('umount', ['-l', place], { stdio: 'ignore' })
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}

async function endGroup(group: number): Promise<void> {
  const end = Date.now() + maxChildMs
  for (kill(-group, 'SIGTERM'); Date.now() < end && kill(-group, 0); ) await sleep(roundMs)
}

/** Processes of the folder and their descendants, without this one. */
function listProcesses(folder: string): number[] {
  const processes = listNames('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => {
      const stat = readText(`/proc/${name}/stat`)
      const parent = Number(stat.slice(stat.lastIndexOf(')')).split(' ')[2])
      return { pid: Number(name), parent, isOwn: belongs(name, folder) }
    })
  const found = new Set<number>()
  for (let size = -1; size < found.size; ) {
    size = found.size
    for (const { pid, parent, isOwn } of processes) if (isOwn || found.has(parent)) found.add(pid)
  }
  found.delete(process.pid)
  return [...found]
}

function belongs(pid: string, folder: string): boolean {
  return (
    ['cmdline', 'environ'].some((file) => names(readText(`/proc/${pid}/${file}`), folder)) ||
    (hasOwnMounts(pid) && mountsBelow(pid, folder))
  )
}

/** Whether a text has the path of the folder or of something in it; that of `folder2` is another. */
function names(text: string, folder: string): boolean {
  for (let at = text.indexOf(folder); at !== -1; at = text.indexOf(folder, at + 1))
    if (!/[\w.-]/.test(text[at + folder.length] ?? '')) return true
  return false
}

/** Processes in our own mount namespace show our mounts, whoever made them. */
function hasOwnMounts(pid: string): boolean {
  const [own, other] = ['self', pid].map((name) => readLink(`/proc/${name}/ns/mnt`))
  return other !== undefined && other !== own
}

/** Whether a mount of the process shows the folder or a part of it; the path is that within the file system. */
function mountsBelow(pid: string, folder: string): boolean {
  const path = pathInFileSystem(folder)
  return readMounts(pid).some(
    ({ root, options }) => root === path || root.startsWith(`${path}/`) || options.includes(`${folder}/`),
  )
}

function pathInFileSystem(path: string): string {
  const isAbove = (place: string) => path === place || path.startsWith(place === '/' ? '/' : `${place}/`)
  const above = readMounts('self').filter(({ place }) => isAbove(place))
  const [mount = { root: '/', place: '/' }] = above.toSorted((a, b) => b.place.length - a.place.length)
  return join(mount.root, relative(mount.place, path))
}

function readMounts(pid: string) {
  return readText(`/proc/${pid}/mountinfo`)
    .split('\n')
    .map((line) => {
      const [, , , root = '', place = '', ...options] = line.split(' ')
      return { root, place, options: options.join(' ') }
    })
}

/** The control groups of the sandboxes of all servers below the folder. */
function listCgroups(folder: string): string[] {
  const records = spawnSync('find', [folder, '-maxdepth', '7', '-path', '*/sandboxes/*/process.json'], {
    encoding: 'utf8',
  }).stdout
  return records
    .split('\n')
    .filter((path) => path !== '')
    .flatMap((path) => {
      const record = parseJson(readText(path))
      return isRecord(record) && Array.isArray(record.groups) ? record.groups.map(String) : []
    })
}

/** The innermost first. */
function listMounts(folder: string): string[] {
  const places = readText('/proc/self/mounts')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
  return places.filter((place) => place.startsWith(`${folder}/`)).toReversed()
}

/** Whether there was a process to signal. */
function kill(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}

/** A frozen process that was killed ends when it is thawed. */
function thaw(group: string): void {
  for (const [name, text] of Object.entries({ 'freezer.state': 'THAWED', 'cgroup.freeze': '0' })) {
    try {
      writeFileSync(join(group, name), text, { flag: 'r+' })
    } catch {}
  }
}

function removeGroup(group: string): void {
  try {
    rmdirSync(group)
  } catch {}
}

function listNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function readLink(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , folder = ''] = process.argv
  let groups = ''
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
  process.stdin
    .on('data', (chunk) => (groups += chunk))
    .on(
      'close',
      () => void reap(folder, groups === '' ? undefined : Number(groups.trim().split('\n').at(-1))),
    )
}
