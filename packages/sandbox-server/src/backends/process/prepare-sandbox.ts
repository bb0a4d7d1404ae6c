import { chmod, chown, lstat, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Order } from '../backend.ts'
import {
  identityArguments,
  insidePlaces,
  isWithin,
  jailArguments,
  mountForWorkingDir,
} from './bubblewrap/arguments.ts'
import { mountDisk } from './host/disk-image.ts'
import { ignoring } from './host/files.ts'
import { hostPath, run } from './host/run-program.ts'
import { jailCommand, type Means } from './host-capabilities.ts'
import { socketName } from './inspect.ts'
import { type Place, shortSocketPath } from './sandbox-paths.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { Launch } from './supervisor.ts'

/** What the backend was told about this host. */
export interface Surroundings {
  readonly directory: string
  readonly agentCommand: readonly string[]
  readonly readable: readonly string[]
  readonly hidden: readonly string[]
  readonly hostSocket: string | undefined
  /** Folder with the compiled code of `agentCommand`; undefined while there is none. */
  readonly codeFolder: () => string | undefined
}

/** Why an order cannot be followed here; undefined when it can. */
export async function faultOf(
  order: Order,
  means: Means,
  place: Place,
  { directory, readable }: Surroundings,
  isJailNeeded: boolean,
): Promise<string | undefined> {
  const texts = [...order.command, order.workingDir, ...Object.entries(order.env).flat()]
  if (texts.some((text) => text.includes('\0')))
    return 'A NUL character stands in its command, folder or environment'
  if (isJailNeeded && means.jail === undefined) return means.isolation.notes[0]
  if (order.network === 'none') {
    if (means.jail === undefined)
      return 'It is to have no network; that needs bubblewrap, which does not work here'
    const socket = await shortSocketPath(directory, place, `${'0'.repeat(8)}.sock`)
    if (socket === undefined) return `${directory} is too long for the path of a Unix socket`
  }
  // A shell hands on variables with other names or not, as it likes.
  const name = /^[A-Za-z_]\w*$/
  const odd = Object.keys(order.env).find((each) =>
    means.jail === undefined ? !name.test(each) : /=|^$/.test(each),
  )
  if (odd !== undefined) return `${JSON.stringify(odd)} is not a name of an environment variable`
  if (order.workingDir === '') return undefined
  const mount = mountForWorkingDir(order.workingDir, readable)
  return typeof mount === 'string' ? mount : undefined
}

/** Where the agent works, as it sees it. */
export function workingDirOf({ workingDir }: Order, place: Place, isJailed: boolean): string {
  const wanted = workingDir === '' ? join(insidePlaces.workspace, 'project') : workingDir
  if (isJailed) return wanted
  const folders = [
    [insidePlaces.workspace, place.workspace],
    [insidePlaces.home, place.home],
  ] as const
  const found = folders.find(([inside]) => isWithin(wanted, inside))
  return found === undefined ? place.elsewhere : join(found[1], wanted.slice(found[0].length))
}

/** Makes the disk, the folders and the files about users. Says what went wrong, or nothing. */
export async function prepareFiles(
  place: Place,
  record: SandboxRecord,
  old: SandboxRecord,
): Promise<string | undefined> {
  await mkdir(place.files, { recursive: true, mode: 0o700 })
  if (record.diskBytes !== null) {
    const fault = await mountDisk(place.image, place.files, record.diskBytes)
    if (fault !== undefined) return fault
  }
  await mkdir(place.reach, { recursive: true, mode: 0o700 })
  for (const name of await readdir(place.reach)) await rm(join(place.reach, name), { force: true })
  await ignoring(['EISDIR', 'ERR_FS_EISDIR'], rm(join(place.data, socketName), { force: true }))
  for (const folder of [place.data, place.workspace, place.home, place.temporary, place.elsewhere]) {
    await mkdir(folder, { recursive: true, mode: 0o755 })
    if (record.user === null || (await lstat(folder)).uid === record.user) continue
    await chown(folder, record.user, record.user)
    // What it made under another user, when the host could less or more.
    if (old.startedAtMs > 0)
      await run('chown', ['-R', '-h', `${record.user}:${record.user}`, folder], 600_000)
  }
  await writeFile(place.passwd, passwd)
  await writeFile(place.group, group)
  if (record.isJailed) return undefined
  const made = await ignoring(
    ['EEXIST', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM', 'ENAMETOOLONG', 'EROFS', 'ENOENT'],
    mkdir(record.workingDir, { recursive: true }).then(() => true),
  )
  return made ? undefined : `${record.workingDir} is not a folder and cannot be made`
}

const passwd = `root:x:0:0:root:/root:/usr/sbin/nologin
slipway:x:1000:1000:slipway:${insidePlaces.home}:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`
const group = 'root:x:0:\nslipway:x:1000:\nnogroup:x:65534:\n'

const maxTemporaryBytes = 512 << 20

/** How the program of an order is started, behind walls where there are any. */
export async function launchOf(
  order: Order,
  place: Place,
  record: SandboxRecord,
  means: Means,
  surroundings: Surroundings,
): Promise<Launch> {
  const program = order.command.length === 0 ? surroundings.agentCommand : order.command
  const data = record.isJailed ? insidePlaces.data : place.data
  const where =
    record.port === null
      ? ['--socket', join(data, socketName)]
      : ['--host', '127.0.0.1', '--port', String(record.port)]
  const command = [...program, ...where, '--data', data]
  const { diskBytes, maxOpenFiles } = order.resources
  const common = {
    place,
    epoch: record.epoch,
    groups: record.groups,
    maxOpenFiles: maxOpenFiles === undefined ? undefined : Math.floor(maxOpenFiles),
    maxFileBytes: record.diskBytes === null ? diskBytes : undefined,
  }
  const code = order.command.length === 0 ? surroundings.codeFolder() : undefined
  const standard = {
    PATH: hostPath,
    LANG: 'C.UTF-8',
    ...(code !== undefined && { NODE_COMPILE_CACHE: record.isJailed ? insidePlaces.code : code }),
  }
  if (means.jail === undefined) {
    const env = { ...standard, HOME: place.home, TMPDIR: place.temporary, ...order.env }
    return { ...common, command, env, cwd: record.workingDir, argumentLists: [] }
  }
  const env = { ...standard, HOME: insidePlaces.home, TMPDIR: '/tmp', ...order.env }
  const lists = [
    await wallsOf(order, place, record, surroundings, code),
    identityArguments(env, record.workingDir, means.jail.canForbidUsers),
  ]
  const jailed = jailCommand(means.jail, record.user, command)
  return { ...common, command: jailed, env: undefined, cwd: place.root, argumentLists: lists }
}

async function wallsOf(
  order: Order,
  place: Place,
  record: SandboxRecord,
  { directory, readable, hidden, hostSocket }: Surroundings,
  code: string | undefined,
): Promise<readonly string[]> {
  const mount = mountForWorkingDir(record.workingDir, readable)
  const elsewhere = typeof mount === 'string' ? undefined : mount.target
  const sockets = record.network === 'none' && hostSocket !== undefined ? dirname(hostSocket) : undefined
  if (sockets !== undefined) await showSockets(sockets)
  return jailArguments({
    user: record.user,
    network: record.network,
    readable,
    hidden: [directory, ...hidden],
    temporaryBytes: Math.min(maxTemporaryBytes, Math.floor((order.resources.memoryBytes ?? Infinity) / 2)),
    shown: [
      [place.passwd, '/etc/passwd'],
      [place.group, '/etc/group'],
      ...(sockets === undefined ? [] : [[sockets, insidePlaces.hostSockets] as const]),
      ...(code === undefined ? [] : [[code, insidePlaces.code] as const]),
    ],
    writable: [
      [place.data, insidePlaces.data],
      [place.workspace, insidePlaces.workspace],
      [place.home, insidePlaces.home],
      ...(elsewhere === undefined ? [] : [[place.elsewhere, elsewhere] as const]),
    ],
  })
}

/** Its folder is the socket's own, so the users of sandboxes may pass through it; the folders above keep others out. */
async function showSockets(folder: string): Promise<void> {
  await ignoring(['ENOENT', 'EPERM'], chmod(folder, 0o711))
}
