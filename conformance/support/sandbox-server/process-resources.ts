import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { readdir, readFile, readlink, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

/**
 * The resources of the process sandboxes of a data directory, as text, found from outside, independent of the
 * server. `id` selects one sandbox.
 */
export async function listProcessResources(data: string, id = ''): Promise<string[]> {
  const folder = join(data, 'sandboxes')
  const pids = await findProcesses(join(folder, id))
  const [listeners, mounts, groups, files] = await Promise.all([
    findListeners(pids.map(({ pid }) => pid)),
    findMounts(join(folder, id)),
    findCgroups(data, id),
    listSandboxFiles(folder, id),
  ])
  return [
    ...pids.map(({ pid, command }) => `process ${pid} ${command}`),
    ...listeners.map((address) => `listener ${address}`),
    ...mounts.map((path) => `mount ${path}`),
    ...groups.map((path) => `control group ${path}`),
    ...files.map((name) => `file ${name}`),
  ]
}

/**
 * Whether files of the process sandboxes are there: they go last, and are found without a look at all
 * processes.
 */
export async function hasSandboxFiles(data: string, id = ''): Promise<boolean> {
  return (await listSandboxFiles(join(data, 'sandboxes'), id)).length > 0
}

/** Ends and removes the leftovers of a failed test. */
export async function cleanUpProcesses(data: string): Promise<void> {
  const folder = join(data, 'sandboxes')
  for (let attempt = 0; attempt < 50; attempt++) {
    const processes = await findProcesses(folder)
    for (const { pid } of processes) {
      try {
        process.kill(pid, 'SIGKILL')
        // A frozen process that was killed ends when it is thawed.
        process.kill(pid, 'SIGCONT')
      } catch {}
    }
    const groups = await findCgroups(data, '')
    for (const group of groups) await thaw(group)
    if (processes.length === 0) break
    await sleep(100)
  }
  for (const path of (await findMounts(folder)).reverse())
    await promisify(execFile)('umount', ['-l', path]).catch(() => {})
  for (const group of await findCgroups(data, '')) await rmdir(group).catch(() => {})
}

/** Only an existing file: no file can be created in a control group. */
async function thaw(group: string): Promise<void> {
  const files = { 'freezer.state': 'THAWED', 'cgroup.freeze': '0' }
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(group, name), text, { flag: 'r+' }).catch(() => {})
  }
}

/** PF_KTHREAD of the flags in `/proc/<pid>/stat`. */
const kernelThread = 0x200000

interface ProcessInfo {
  readonly pid: number
  readonly parent: number
  readonly command: string
}

/**
 * Processes whose command names a file below a folder, that have the folder mounted, and their descendants.
 * Polled many times in each test: it reads without promises, and the mounts of each namespace once.
 */
export async function findProcesses(folder: string): Promise<ProcessInfo[]> {
  const names = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const all = names.map((name) => readProcess(Number(name))).filter((each) => each !== undefined)
  const related = new Set<number>()
  const namespaces = new Map<string, boolean>()
  for (const { pid } of all) if (pid !== process.pid && refersTo(pid, folder, namespaces)) related.add(pid)
  for (let before = -1; before !== related.size; ) {
    before = related.size
    for (const { pid, parent } of all) if (related.has(parent)) related.add(pid)
  }
  return all.filter(({ pid }) => related.has(pid))
}

function readProcess(pid: number): ProcessInfo | undefined {
  const rest = /^\d+ \(.*\) (\S) (\d+) \S+ \S+ \S+ \S+ (\d+)/s.exec(readProc(`${pid}/stat`))
  // A zombie is not counted, nor a thread of the kernel.
  if (rest === null || rest[1] === 'Z' || rest[1] === 'X' || (Number(rest[3]) & kernelThread) !== 0)
    return undefined
  const command = readProc(`${pid}/cmdline`).replaceAll('\0', ' ').slice(0, 300)
  return { pid, parent: Number(rest[2]), command }
}

function refersTo(pid: number, folder: string, namespaces: Map<string, boolean>): boolean {
  const mentionsFolder = (text: string) => text.includes(`${folder}/`) || text.includes(`${folder}\0`)
  if (mentionsFolder(readProc(`${pid}/cmdline`)) || mentionsFolder(readProc(`${pid}/environ`))) return true
  const namespace = readProcLink(`${pid}/ns/mnt`)
  const known = namespaces.get(namespace)
  if (known !== undefined) return known
  // Its mount table shows the origin of its folders.
  const mounts = readProc(`${pid}/mountinfo`).split('\n')
  const isMounted = mounts.some((line) => (line.split(' ')[3] ?? '').includes(`${folder}/`))
  // One that ends meanwhile shows no mounts, and says nothing of others.
  if (namespace !== '' && mounts.length > 1) namespaces.set(namespace, isMounted)
  return isMounted
}

function readProc(name: string): string {
  try {
    return readFileSync(`/proc/${name}`, 'latin1')
  } catch {
    return ''
  }
}

function readProcLink(name: string): string {
  try {
    return readlinkSync(`/proc/${name}`)
  } catch {
    return ''
  }
}

/** Ports and Unix sockets on which these processes listen. */
async function findListeners(pids: readonly number[]): Promise<string[]> {
  const found = new Set<string>()
  for (const pid of pids) {
    const handles = await readdir(`/proc/${pid}/fd`).catch(() => [])
    const links = await Promise.all(
      handles.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => '')),
    )
    const own = new Set(links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []))
    for (const table of ['tcp', 'tcp6']) {
      for (const line of (await readText(`/proc/${pid}/net/${table}`)).split('\n').slice(1)) {
        const columns = line.trim().split(/\s+/)
        const port = Number.parseInt(columns[1]?.split(':').at(-1) ?? '', 16)
        if (columns[3] === '0A' && own.has(columns[9] ?? '')) found.add(String(port))
      }
    }
    for (const line of (await readText(`/proc/${pid}/net/unix`)).split('\n').slice(1)) {
      const [, , , flags, , , inode = '', path = ''] = line.trim().split(/\s+/)
      if (flags === '00010000' && own.has(inode)) found.add(path || inode)
    }
  }
  return [...found]
}

async function findMounts(folder: string): Promise<string[]> {
  const lines = (await readText('/proc/self/mounts')).split('\n')
  return lines.flatMap((line) => (line.split(' ')[1]?.startsWith(folder) ? [String(line.split(' ')[1])] : []))
}

/**
 * Directories of control groups, in all hierarchies, that are named after the control plane of the data
 * directory.
 */
async function findCgroups(data: string, id: string): Promise<string[]> {
  const controlPlane = readControlPlaneId(data)
  if (controlPlane === undefined) return []
  return readCgroupNames()
    .filter((name) => /[^/]*$/.exec(name)?.[0].includes(controlPlane.slice(0, 16)) && name.endsWith(id))
    .map((name) => join('/sys/fs/cgroup', name))
}

function readCgroupNames(): string[] {
  try {
    return readdirSync('/sys/fs/cgroup', { recursive: true, encoding: 'utf8' })
  } catch {
    return []
  }
}

/** Where tests note the id of a control plane that is in a database. */
export const ledgerFile = 'ledger-of-the-test'

/** Undefined before the first start. */
export function readControlPlaneId(data: string): string | undefined {
  try {
    const ledger = join(data, ledgerFile)
    if (existsSync(ledger)) return readFileSync(ledger, 'utf8')
    using database = new DatabaseSync(join(data, 'control.db'), { readOnly: true })
    const row = database.prepare('SELECT id FROM ledger').get()
    return typeof row?.id === 'string' ? row.id : undefined
  } catch {
    return undefined
  }
}

/** Sets the desired state of all sandboxes to deleted; the server does not run. */
export function markAllForDeletion(data: string): void {
  if (readControlPlaneId(data) === undefined) return
  using database = new DatabaseSync(join(data, 'control.db'))
  database.exec("UPDATE sandbox SET wanted = 'gone'")
}

/** Files and folders beside the sandboxes count too: a draft, an interrupted removal, a link to a socket. */
async function listSandboxFiles(folder: string, id: string): Promise<string[]> {
  const names = (await readdir(folder).catch(() => [])).filter((name) => name !== '.s')
  const links = await readdir(join(folder, '.s')).catch(() => [])
  for (const link of links) {
    const target = await readlink(join(folder, '.s', link)).catch(() => 'nothing')
    names.push(`.s/${link} -> ${target}`)
  }
  return names.filter((name) => name.includes(id))
}

async function readText(path: string): Promise<string> {
  return await readFile(path, 'latin1').catch(() => '')
}
