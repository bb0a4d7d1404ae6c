import { chmod, chown, lstat, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { SandboxConfig } from '../backend.ts'
import {
  identityArguments,
  insidePaths,
  isWithin,
  jailArguments,
  workingDirMount,
} from './bubblewrap/arguments.ts'
import { mountDisk } from './host/disk-image.ts'
import { ignoreErrors } from './host/files.ts'
import { hostPath, runProgram } from './host/run-program.ts'
import { type HostCapabilities, jailCommand } from './host-capabilities.ts'
import { agentSocketName } from './inspect.ts'
import { type SandboxPaths, shortSocketPath } from './sandbox-paths.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { LaunchOptions } from './supervisor.ts'

/** What the backend was told about this host. */
export interface PreparationDeps {
  readonly directory: string
  readonly agentCommand: readonly string[]
  readonly readable: readonly string[]
  readonly inaccessible: readonly string[]
  readonly hostSocket: string | undefined
  /** Folder with the compiled code of `agentCommand`; undefined while there is none. */
  readonly codeFolder: () => string | undefined
}

/** Why an order cannot be followed here; undefined when it can. */
export async function validateConfig(
  config: SandboxConfig,
  means: HostCapabilities,
  paths: SandboxPaths,
  { directory, readable }: PreparationDeps,
  isJailNeeded: boolean,
): Promise<string | undefined> {
  const texts = [...config.command, config.workingDir, ...Object.entries(config.env).flat()]
  if (texts.some((text) => text.includes('\0')))
    return 'A NUL character stands in its command, folder or environment'
  if (isJailNeeded && means.jail === undefined) return means.isolation.notes[0]
  if (config.network === 'none') {
    if (means.jail === undefined)
      return 'It is to have no network; that needs bubblewrap, which does not work here'
    const socket = await shortSocketPath(directory, paths, `${'0'.repeat(8)}.sock`)
    if (socket === undefined) return `${directory} is too long for the path of a Unix socket`
  }
  // A shell hands on variables with other names or not, as it likes.
  const name = /^[A-Za-z_]\w*$/
  const invalidName = Object.keys(config.env).find((each) =>
    means.jail === undefined ? !name.test(each) : /=|^$/.test(each),
  )
  if (invalidName !== undefined)
    return `${JSON.stringify(invalidName)} is not a name of an environment variable`
  if (config.workingDir === '') return undefined
  const mount = workingDirMount(config.workingDir, readable)
  return typeof mount === 'string' ? mount : undefined
}

/** Where the agent works, as it sees it. */
export function resolveWorkingDir(
  { workingDir }: SandboxConfig,
  paths: SandboxPaths,
  isJailed: boolean,
): string {
  const requested = workingDir === '' ? join(insidePaths.workspace, 'project') : workingDir
  if (isJailed) return requested
  const folders = [
    [insidePaths.workspace, paths.workspace],
    [insidePaths.homeDirectory, paths.homeDirectory],
  ] as const
  const found = folders.find(([inside]) => isWithin(requested, inside))
  return found === undefined ? paths.externalWorkingDir : join(found[1], requested.slice(found[0].length))
}

/** Makes the disk, the folders and the files about users. Says what went wrong, or nothing. */
export async function prepareFiles(
  paths: SandboxPaths,
  record: SandboxRecord,
  previous: SandboxRecord,
): Promise<string | undefined> {
  await mkdir(paths.files, { recursive: true, mode: 0o700 })
  if (record.diskBytes !== null) {
    const failure = await mountDisk(paths.image, paths.files, record.diskBytes)
    if (failure !== undefined) return failure
  }
  await mkdir(paths.sockets, { recursive: true, mode: 0o700 })
  for (const name of await readdir(paths.sockets)) await rm(join(paths.sockets, name), { force: true })
  await ignoreErrors(['EISDIR', 'ERR_FS_EISDIR'], rm(join(paths.data, agentSocketName), { force: true }))
  for (const folder of [
    paths.data,
    paths.workspace,
    paths.homeDirectory,
    paths.temporary,
    paths.externalWorkingDir,
  ]) {
    await mkdir(folder, { recursive: true, mode: 0o755 })
    if (record.user === null || (await lstat(folder)).uid === record.user) continue
    await chown(folder, record.user, record.user)
    // What it made under another user, when the host could less or more.
    if (previous.startedAtMs > 0)
      await runProgram('chown', ['-R', '-h', `${record.user}:${record.user}`, folder], 600_000)
  }
  await writeFile(paths.passwd, passwd)
  await writeFile(paths.group, group)
  if (record.isJailed) return undefined
  const made = await ignoreErrors(
    ['EEXIST', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM', 'ENAMETOOLONG', 'EROFS', 'ENOENT'],
    mkdir(record.workingDir, { recursive: true }).then(() => true),
  )
  return made ? undefined : `${record.workingDir} is not a folder and cannot be made`
}

const passwd = `root:x:0:0:root:/root:/usr/sbin/nologin
slipway:x:1000:1000:slipway:${insidePaths.homeDirectory}:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`
const group = 'root:x:0:\nslipway:x:1000:\nnogroup:x:65534:\n'

const maxTemporaryBytes = 512 << 20

/** How the program of an order is started, behind walls where there are any. */
export async function buildLaunch(
  config: SandboxConfig,
  paths: SandboxPaths,
  record: SandboxRecord,
  means: HostCapabilities,
  deps: PreparationDeps,
): Promise<LaunchOptions> {
  const program = config.command.length === 0 ? deps.agentCommand : config.command
  const data = record.isJailed ? insidePaths.data : paths.data
  const where =
    record.port === null
      ? ['--socket', join(data, agentSocketName)]
      : ['--host', '127.0.0.1', '--port', String(record.port)]
  const command = [...program, ...where, '--data', data]
  const { diskBytes, maxOpenFiles } = config.resources
  const common = {
    paths,
    epoch: record.epoch,
    groups: record.groups,
    maxOpenFiles: maxOpenFiles === undefined ? undefined : Math.floor(maxOpenFiles),
    maxFileBytes: record.diskBytes === null ? diskBytes : undefined,
  }
  const code = config.command.length === 0 ? deps.codeFolder() : undefined
  const standard = {
    PATH: hostPath,
    LANG: 'C.UTF-8',
    ...(code !== undefined && { NODE_COMPILE_CACHE: record.isJailed ? insidePaths.code : code }),
  }
  if (means.jail === undefined) {
    const env = { ...standard, HOME: paths.homeDirectory, TMPDIR: paths.temporary, ...config.env }
    return { ...common, command, env, cwd: record.workingDir, argumentLists: [] }
  }
  const env = { ...standard, HOME: insidePaths.homeDirectory, TMPDIR: '/tmp', ...config.env }
  const lists = [
    await buildJailArguments(config, paths, record, deps, code),
    identityArguments(env, record.workingDir, means.jail.canForbidUsers),
  ]
  const jailed = jailCommand(means.jail, record.user, command)
  return { ...common, command: jailed, env: undefined, cwd: paths.root, argumentLists: lists }
}

async function buildJailArguments(
  config: SandboxConfig,
  paths: SandboxPaths,
  record: SandboxRecord,
  { directory, readable, inaccessible, hostSocket }: PreparationDeps,
  code: string | undefined,
): Promise<readonly string[]> {
  const mount = workingDirMount(record.workingDir, readable)
  const externalTarget = typeof mount === 'string' ? undefined : mount.target
  const sockets = record.network === 'none' && hostSocket !== undefined ? dirname(hostSocket) : undefined
  if (sockets !== undefined) await allowSocketTraversal(sockets)
  return jailArguments({
    user: record.user,
    network: record.network,
    readable,
    inaccessible: [directory, ...inaccessible],
    temporaryBytes: Math.min(maxTemporaryBytes, Math.floor((config.resources.memoryBytes ?? Infinity) / 2)),
    readOnlyBinds: [
      [paths.passwd, '/etc/passwd'],
      [paths.group, '/etc/group'],
      ...(sockets === undefined ? [] : [[sockets, insidePaths.hostSockets] as const]),
      ...(code === undefined ? [] : [[code, insidePaths.code] as const]),
    ],
    writableBinds: [
      [paths.data, insidePaths.data],
      [paths.workspace, insidePaths.workspace],
      [paths.homeDirectory, insidePaths.homeDirectory],
      ...(externalTarget === undefined ? [] : [[paths.externalWorkingDir, externalTarget] as const]),
    ],
  })
}

/** Its folder is the socket's own, so the users of sandboxes may pass through it; the folders above keep others out. */
async function allowSocketTraversal(folder: string): Promise<void> {
  await ignoreErrors(['ENOENT', 'EPERM'], chmod(folder, 0o711))
}
