import { chmod, chown, lstat, readdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { must } from '@slipway/protocol'
import { isWithin, makeDirectory } from '@slipway/shared/fs'
import { shortSocketPath } from '@slipway/shared/process'
import type { SandboxConfig, SandboxNetworkMode } from '../backend.ts'
import { agentSocketName } from './agent-socket.ts'
import { insidePaths, jailCommand, workingDirMount } from './bubblewrap/arguments.ts'
import { pastaCommand } from './bubblewrap/private-network.ts'
import { mountDisk } from './host/disk-image.ts'
import { ignoreErrors } from './host/files.ts'
import { hostPath, runProgram } from './host/run-program.ts'
import type { HostCapabilities } from './host-capabilities.ts'
import { type SandboxPaths, socketLinkFolders, socketName } from './sandbox-paths.ts'
import type { SandboxRecord } from './sandbox-record.ts'
import type { LaunchOptions } from './supervisor.ts'

/** The options of the backend that concern files and programs. */
export interface PreparationDeps {
  /** Without a jail every start fails. */
  readonly isJailRequired: boolean
  /** Sandboxes share the network of the host where they can have none of their own. */
  readonly mayShareNetwork: boolean
  readonly directory: string
  readonly agentCommand: readonly string[]
  readonly readable: readonly string[]
  readonly inaccessible: readonly string[]
  readonly hostSocket: string | undefined
  /** Folder with the compiled code of `agentCommand`; undefined while there is none. */
  readonly codeFolder: () => string | undefined
}

/** Why a sandbox cannot be started here; undefined when it can. */
export async function validateConfig(
  config: SandboxConfig,
  capabilities: HostCapabilities,
  paths: SandboxPaths,
  { directory, readable, isJailRequired, mayShareNetwork }: PreparationDeps,
): Promise<string | undefined> {
  const texts = [...config.command, config.workingDir, ...Object.entries(config.env).flat()]
  if (texts.some((text) => text.includes('\0')))
    return 'A NUL character stands in its command, folder or environment'
  if (isJailRequired && capabilities.jail === undefined) return capabilities.isolation.notes[0]
  if (config.network === 'none' && capabilities.jail === undefined)
    return 'It is to have no network; that needs bubblewrap, which does not work here'
  if (config.network === 'private' && !mayShareNetwork && capabilities.jail?.network === undefined)
    return `It is to have its own network: ${capabilities.networkFailure}`
  const socketLinks = socketLinkFolders(directory)
  const socket = await shortSocketPath(paths.sockets, socketName('0'.repeat(16)), socketLinks)
  if (socket === undefined) return `${directory} is too long for the path of a Unix socket`
  // Shells may drop variables with other names.
  const name = /^[A-Za-z_]\w*$/
  const invalidName = Object.keys(config.env).find((each) =>
    capabilities.jail === undefined ? !name.test(each) : /=|^$/.test(each),
  )
  if (invalidName !== undefined)
    return `${JSON.stringify(invalidName)} is not a name of an environment variable`
  if (config.workingDir === '') return undefined
  const mount = workingDirMount(config.workingDir, readable)
  return typeof mount === 'string' ? mount : undefined
}

/** The network that a sandbox gets here. */
export function resolveNetwork(
  { network }: Pick<SandboxConfig, 'network'>,
  { jail }: Pick<HostCapabilities, 'jail'>,
): SandboxNetworkMode {
  return network === 'private' && jail?.network === undefined ? 'shared' : network
}

/** The working directory of the agent, as it sees it. */
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
  const found = folders.find(([inside]) => isWithin(inside, requested))
  return found === undefined ? paths.externalWorkingDir : join(found[1], requested.slice(found[0].length))
}

/** Creates the disk, the folders and the files of users and groups. Returns why that failed. */
export async function prepareFiles(
  paths: SandboxPaths,
  record: SandboxRecord,
  previous: SandboxRecord,
): Promise<string | undefined> {
  await makeDirectory(paths.files, 0o700)
  if (record.diskBytes !== null) {
    const failure = await mountDisk(paths.image, paths.files, record.diskBytes)
    if (failure !== undefined) return failure
  }
  await makeDirectory(paths.sockets, 0o700)
  for (const name of await readdir(paths.sockets)) await rm(join(paths.sockets, name), { force: true })
  await ignoreErrors(['EISDIR', 'ERR_FS_EISDIR'], rm(join(paths.data, agentSocketName), { force: true }))
  const { data, workspace, homeDirectory, temporary, externalWorkingDir } = paths
  for (const folder of [data, workspace, homeDirectory, temporary, externalWorkingDir]) {
    await makeDirectory(folder, 0o755)
    if (record.user === null || (await lstat(folder)).uid === record.user) continue
    await chown(folder, record.user, record.user)
    // Its files of another user, from a start with other capabilities of the host.
    if (previous.startedAtMs > 0)
      await runProgram('chown', ['-R', '-h', `${record.user}:${record.user}`, folder], 600_000)
  }
  await writeFile(paths.passwd, passwd)
  await writeFile(paths.group, group)
  if (record.isJailed) return undefined
  const made = await ignoreErrors(
    ['EEXIST', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM', 'ENAMETOOLONG', 'EROFS', 'ENOENT'],
    makeDirectory(record.workingDir).then(() => true),
  )
  return made ? undefined : `${record.workingDir} is not a folder and cannot be made`
}

const passwd = `root:x:0:0:root:/root:/usr/sbin/nologin
slipway:x:1000:1000:slipway:${insidePaths.homeDirectory}:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`
const group = 'root:x:0:\nslipway:x:1000:\nnogroup:x:65534:\n'

/**
 * A signal of another program of the sandbox must not open Node's debugger, which has the rights of the
 * server.
 */
function withoutDebugger([program = '', ...args]: readonly string[]): readonly string[] {
  return program === process.execPath ? [program, '--disable-sigusr1', ...args] : [program, ...args]
}

const maxTemporaryBytes = 512 << 20

/** How the program of a sandbox is started, in a jail where there is one. */
export async function buildLaunch(
  config: SandboxConfig,
  paths: SandboxPaths,
  record: SandboxRecord,
  { jail }: HostCapabilities,
  deps: PreparationDeps,
): Promise<LaunchOptions> {
  const { diskBytes, maxOpenFiles, memoryBytes = Infinity } = config.resources
  const isOwnProgram = config.command.length === 0
  const code = isOwnProgram ? deps.codeFolder() : undefined
  const data = jail === undefined ? paths.data : insidePaths.data
  const socket =
    jail === undefined
      ? await shortSocketPath(paths.sockets, socketName(record.epoch), socketLinkFolders(deps.directory))
      : join(data, agentSocketName)
  const address = ['--socket', must(socket, 'the path of a socket'), '--data', data]
  const program = [...(isOwnProgram ? withoutDebugger(deps.agentCommand) : config.command), ...address]
  const common = {
    paths,
    epoch: record.epoch,
    groups: record.groups,
    maxOpenFiles: maxOpenFiles === undefined ? undefined : Math.floor(maxOpenFiles),
    maxFileBytes: record.diskBytes === null ? diskBytes : undefined,
  }
  const environment = (homeDirectory: string, temporary: string, codeFolder: string) => ({
    PATH: hostPath,
    LANG: 'C.UTF-8',
    ...(code !== undefined && { NODE_COMPILE_CACHE: codeFolder }),
    HOME: homeDirectory,
    TMPDIR: temporary,
    ...config.env,
  })
  if (jail === undefined) {
    const env = environment(paths.homeDirectory, paths.temporary, code ?? '')
    return { ...common, command: program, env, cwd: record.workingDir, pasta: [], inputs: [] }
  }
  const mount = workingDirMount(record.workingDir, deps.readable)
  const externalTarget = typeof mount === 'string' ? undefined : mount.target
  const sockets =
    record.network !== 'shared' && deps.hostSocket !== undefined ? dirname(deps.hostSocket) : undefined
  // The folder has only the socket: users of sandboxes may enter it, while the folders above keep others out.
  if (sockets !== undefined) await ignoreErrors(['ENOENT', 'EPERM'], chmod(sockets, 0o711))
  const options = {
    user: record.user,
    network: record.network,
    env: environment(insidePaths.homeDirectory, '/tmp', insidePaths.code),
    workingDir: record.workingDir,
    readable: deps.readable,
    inaccessible: [deps.directory, ...deps.inaccessible],
    temporaryBytes: Math.min(maxTemporaryBytes, Math.floor(memoryBytes / 2)),
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
  } as const
  const pasta =
    record.network === 'private' && jail.network !== undefined
      ? pastaCommand(jail.network, jail.setpriv !== undefined, config.hostPorts ?? [])
      : []
  return { ...common, pasta, ...(await jailCommand(jail, options, program)), env: undefined, cwd: paths.root }
}
