import { execFile } from 'node:child_process'
import { readdir, readFile, readlink, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

/**
 * What there is of the process sandboxes of a data directory, in words: looked for from outside, without any help of the server.
 * `id`: of this sandbox alone.
 */
export async function remainsOf(data: string, id = ''): Promise<string[]> {
  const folder = join(data, 'sandboxes')
  const pids = await processesOf(join(folder, id))
  const [listeners, mounts, groups, files] = await Promise.all([
    listenersOf(pids.map(({ pid }) => pid)),
    mountsBelow(join(folder, id)),
    groupsOf(data, id),
    filesOf(folder, id),
  ])
  return [
    ...pids.map(({ pid, command }) => `process ${pid} ${command}`),
    ...listeners.map((port) => `listener ${port}`),
    ...mounts.map((path) => `mount ${path}`),
    ...groups.map((path) => `control group ${path}`),
    ...files.map((name) => `file ${name}`),
  ]
}

/** Ends and removes what a test that failed has left behind. */
export async function clear(data: string): Promise<void> {
  const folder = join(data, 'sandboxes')
  for (let tries = 0; tries < 50; tries++) {
    const found = await processesOf(folder)
    for (const { pid } of found) {
      try {
        process.kill(pid, 'SIGKILL')
        // A killed one that stands still ends when it goes on.
        process.kill(pid, 'SIGCONT')
      } catch {}
    }
    const groups = await groupsOf(data, '')
    for (const group of groups) await thaw(group)
    if (found.length === 0) break
    await sleep(100)
  }
  for (const path of (await mountsBelow(folder)).reverse())
    await promisify(execFile)('umount', ['-l', path]).catch(() => {})
  for (const group of await groupsOf(data, '')) await rmdir(group).catch(() => {})
}

/** Only the file that is there: none can be made in a control group. */
async function thaw(group: string): Promise<void> {
  const files = { 'freezer.state': 'THAWED', 'cgroup.freeze': '0' }
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(group, name), text, { flag: 'r+' }).catch(() => {})
  }
}

interface Found {
  readonly pid: number
  readonly parent: number
  readonly command: string
}

/** Processes that were started for something below a folder, see it mounted anywhere, or descend from such. */
export async function processesOf(folder: string): Promise<Found[]> {
  const names = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const all = (await Promise.all(names.map((name) => about(Number(name))))).filter(
    (each) => each !== undefined,
  )
  const marked = new Set<number>()
  for (const { pid } of all) if (pid !== process.pid && (await isMarked(pid, folder))) marked.add(pid)
  for (let before = -1; before !== marked.size; ) {
    before = marked.size
    for (const { pid, parent } of all) if (marked.has(parent)) marked.add(pid)
  }
  return all.filter(({ pid }) => marked.has(pid))
}

async function about(pid: number): Promise<Found | undefined> {
  const stat = await textOf(`/proc/${pid}/stat`)
  const rest = /^\d+ \(.*\) (\S) (\d+)/s.exec(stat)
  // One that has ended and waits for its parent to notice is no process any more.
  if (rest === null || rest[1] === 'Z' || rest[1] === 'X') return undefined
  const command = (await textOf(`/proc/${pid}/cmdline`)).replaceAll('\0', ' ').slice(0, 300)
  return { pid, parent: Number(rest[2]), command }
}

async function isMarked(pid: number, folder: string): Promise<boolean> {
  const [command, environment, mounts] = await Promise.all(
    ['cmdline', 'environ', 'mountinfo'].map((name) => textOf(`/proc/${pid}/${name}`)),
  )
  const mark = (text: string | undefined) => text?.includes(`${folder}/`) || text?.includes(`${folder}\0`)
  if (mark(command) || mark(environment)) return true
  // Its own view of the files shows where the folders that it sees come from.
  return (mounts ?? '').split('\n').some((line) => (line.split(' ')[3] ?? '').includes(`${folder}/`))
}

/** Ports on which these processes listen. */
async function listenersOf(pids: readonly number[]): Promise<string[]> {
  const found = new Set<string>()
  for (const pid of pids) {
    const handles = await readdir(`/proc/${pid}/fd`).catch(() => [])
    const links = await Promise.all(
      handles.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => '')),
    )
    const own = new Set(links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []))
    for (const table of ['tcp', 'tcp6']) {
      for (const line of (await textOf(`/proc/${pid}/net/${table}`)).split('\n').slice(1)) {
        const columns = line.trim().split(/\s+/)
        const port = Number.parseInt(columns[1]?.split(':').at(-1) ?? '', 16)
        if (columns[3] === '0A' && own.has(columns[9] ?? '')) found.add(String(port))
      }
    }
  }
  return [...found]
}

async function mountsBelow(folder: string): Promise<string[]> {
  const lines = (await textOf('/proc/self/mounts')).split('\n')
  return lines.flatMap((line) => (line.split(' ')[1]?.startsWith(folder) ? [String(line.split(' ')[1])] : []))
}

/** Directories of control groups, in all hierarchies, that are called by the ledger of the data directory. */
async function groupsOf(data: string, id: string): Promise<string[]> {
  const ledger = ledgerOf(data)
  if (ledger === undefined) return []
  const names = await readdir('/sys/fs/cgroup', { recursive: true }).catch(() => [])
  return names
    .filter((name) => /[^/]*$/.exec(name)?.[0].includes(ledger.slice(0, 16)) && name.endsWith(id))
    .map((name) => join('/sys/fs/cgroup', name))
}

/** Undefined while there is none. */
export function ledgerOf(data: string): string | undefined {
  try {
    using database = new DatabaseSync(join(data, 'control.db'), { readOnly: true })
    const row = database.prepare('SELECT id FROM ledger').get()
    return typeof row?.id === 'string' ? row.id : undefined
  } catch {
    return undefined
  }
}

/** Writes into the ledger that nobody wants any of the sandboxes any more; the server does not run. */
export function wishGone(data: string): void {
  if (ledgerOf(data) === undefined) return
  using database = new DatabaseSync(join(data, 'control.db'))
  database.exec("UPDATE sandbox SET wanted = 'gone'")
}

/** Files and folders beside the sandboxes count too: a draft, a removal that was cut off, a link to a socket. */
async function filesOf(folder: string, id: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true }).catch(() => [])
  const depth = (name: string) => name.split('/').length
  return names.filter(
    (name) => name !== '.s' && (name.startsWith('.s/') || depth(name) === 1) && name.includes(id),
  )
}

async function textOf(path: string): Promise<string> {
  return await readFile(path, 'latin1').catch(() => '')
}
