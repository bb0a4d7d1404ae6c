import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
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

interface ProcessInfo {
  readonly pid: number
  readonly parent: number
  readonly command: string
}

/**
 * Processes whose command names a file below a folder, that have the folder mounted, and their descendants.
 */
export async function findProcesses(folder: string): Promise<ProcessInfo[]> {
  const names = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const all = (await Promise.all(names.map((name) => readProcess(Number(name))))).filter(
    (each) => each !== undefined,
  )
  const related = new Set<number>()
  for (const { pid } of all) if (pid !== process.pid && (await refersTo(pid, folder))) related.add(pid)
  for (let before = -1; before !== related.size; ) {
    before = related.size
    for (const { pid, parent } of all) if (related.has(parent)) related.add(pid)
  }
  return all.filter(({ pid }) => related.has(pid))
}

async function readProcess(pid: number): Promise<ProcessInfo | undefined> {
  const stat = await readText(`/proc/${pid}/stat`)
  const rest = /^\d+ \(.*\) (\S) (\d+)/s.exec(stat)
  // A zombie is not counted.
  if (rest === null || rest[1] === 'Z' || rest[1] === 'X') return undefined
  const command = (await readText(`/proc/${pid}/cmdline`)).replaceAll('\0', ' ').slice(0, 300)
  return { pid, parent: Number(rest[2]), command }
}

async function refersTo(pid: number, folder: string): Promise<boolean> {
  const [command, environment, mounts] = await Promise.all(
    ['cmdline', 'environ', 'mountinfo'].map((name) => readText(`/proc/${pid}/${name}`)),
  )
  const mentionsFolder = (text: string | undefined) =>
    text?.includes(`${folder}/`) || text?.includes(`${folder}\0`)
  if (mentionsFolder(command) || mentionsFolder(environment)) return true
  // Its mount table shows the origin of its folders.
  return (mounts ?? '').split('\n').some((line) => (line.split(' ')[3] ?? '').includes(`${folder}/`))
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
  const names = await readdir('/sys/fs/cgroup', { recursive: true }).catch(() => [])
  return names
    .filter((name) => /[^/]*$/.exec(name)?.[0].includes(controlPlane.slice(0, 16)) && name.endsWith(id))
    .map((name) => join('/sys/fs/cgroup', name))
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
