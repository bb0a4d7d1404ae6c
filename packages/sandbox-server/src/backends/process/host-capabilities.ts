import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Isolation, Resources } from '../backend.ts'
import { identityArguments, jailArguments } from './bubblewrap/arguments.ts'
import { spawnWithFds } from './bubblewrap/spawn-with-fds.ts'
import { type CgroupHierarchy, detectCgroupHierarchies } from './cgroups/cgroups.ts'
import { canLimitDisk } from './host/disk-image.ts'
import { findProgram, runProgram } from './host/run-program.ts'
import { hostUserId } from './sandbox-paths.ts'

/** What this host can do to keep sandboxes apart and within their limits; found out by doing it. */
export interface HostCapabilities {
  /** Undefined: no walls. */
  readonly jail: Jail | undefined
  readonly hierarchies: readonly CgroupHierarchy[]
  readonly canLimitDisk: boolean
  readonly isolation: Isolation
}

export interface Jail {
  readonly bubblewrap: string
  /** Present when the server is root: sandboxes get users of their own. */
  readonly setpriv: string | undefined
  readonly canForbidUsers: boolean
}

export type IsolationMode = 'auto' | 'bubblewrap' | 'none'

/** `trial`: what the paths of folders begin with in which things are tried. */
export async function detectHostCapabilities(
  probePrefix: string,
  mode: IsolationMode,
  mayLimit: boolean,
): Promise<HostCapabilities> {
  await mkdir(dirname(probePrefix), { recursive: true, mode: 0o700 })
  const [jail, hierarchies, canLimit] = await Promise.all([
    mode === 'none' ? 'it was switched off' : detectJail(probePrefix),
    mayLimit && process.platform === 'linux' ? detectCgroupHierarchies() : [],
    mayLimit && canLimitDisk(probePrefix),
  ])
  const features = hierarchies.flatMap((each) => each.features)
  const enforced: (keyof Resources)[] = [
    ...(features.includes('memory') ? (['memoryBytes'] as const) : []),
    ...(features.includes('pids') ? (['maxProcesses'] as const) : []),
    ...(features.includes('cpu') ? (['cpus'] as const) : []),
    ...(canLimit ? (['diskBytes'] as const) : []),
    ...((await canLimitOpenFiles()) ? (['maxOpenFiles'] as const) : []),
  ]
  const notes = [
    ...(typeof jail === 'string'
      ? [
          `Sandboxes are processes like any other of the server's user: they see and may change what it may. ` +
            `Bubblewrap is not in use: ${jail}.`,
          'Processes that leave their session and clear their environment may be overlooked where there are no control groups.',
        ].slice(0, features.includes('freeze') ? 1 : 2)
      : [
          'The kernel and, unless a sandbox has no network, the network of the host with its loopback ports are shared.',
        ]),
    ...missingLimitNotes(enforced),
  ]
  return {
    jail: typeof jail === 'string' ? undefined : jail,
    hierarchies,
    canLimitDisk: canLimit,
    isolation: { kind: typeof jail === 'string' ? 'none' : 'namespaces', enforced, notes },
  }
}

function missingLimitNotes(enforced: readonly (keyof Resources)[]): string[] {
  const groups = (['memoryBytes', 'maxProcesses', 'cpus'] as const).filter((each) => !enforced.includes(each))
  return [
    ...(groups.length === 0
      ? []
      : [`Not limited: ${groups.join(', ')}. Needs control groups (cgroups) that the server may write.`]),
    ...(enforced.includes('diskBytes')
      ? []
      : [
          'Not limited: diskBytes, only the size of single files is. Needs root, e2fsprogs and loop devices.',
        ]),
  ]
}

/** Runs a program behind the walls that sandboxes will have. A text says why that is not possible. */
async function detectJail(probePrefix: string): Promise<Jail | string> {
  if (process.platform !== 'linux') return 'it exists on Linux only'
  const [bubblewrap, setpriv] = await Promise.all(['bwrap', 'setpriv'].map(findProgram))
  if (bubblewrap === undefined) return 'it is not installed (package bubblewrap)'
  const isRoot = process.getuid?.() === 0
  if (isRoot && setpriv === undefined) return 'it needs setpriv (package util-linux) when the server is root'
  const help = await runProgram(bubblewrap, ['--help'])
  const jail = {
    bubblewrap,
    setpriv: isRoot ? setpriv : undefined,
    canForbidUsers: help.output.includes('--disable-userns'),
  }
  const probeDirectory = await mkdtemp(probePrefix)
  try {
    return (await tryJail(jail, probeDirectory)) ?? jail
  } finally {
    await rm(probeDirectory, { recursive: true, force: true })
  }
}

async function tryJail(jail: Jail, probeDirectory: string): Promise<string | undefined> {
  const user = jail.setpriv === undefined ? null : hostUserId('', '')
  const outer = await jailArguments({
    user,
    network: 'none',
    writableBinds: [],
    readOnlyBinds: [],
    readable: [],
    inaccessible: [],
    temporaryBytes: 1 << 20,
  })
  const lists = [outer, identityArguments({ PATH: '/usr/bin:/bin' }, '/tmp', jail.canForbidUsers)]
  const command = jailCommand(jail, user, ['/bin/sh', '-c', 'read -r x < /proc/self/stat'])
  const { child, ended } = await spawnWithFds(command, lists, probeDirectory, ['ignore', 'ignore', 'pipe'])
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000)
  let errorOutput = ''
  child.stderr?.on('data', (part: Buffer) => {
    errorOutput += part.toString()
  })
  const code = await ended.finally(() => clearTimeout(timer))
  if (typeof code === 'string') return code
  return code === 0 ? undefined : `it does not work here (${errorOutput.trim() || code})`
}

/** The program and arguments that put a command behind the walls; what they are made of comes by descriptors 3 and 4. */
export function jailCommand(jail: Jail, user: number | null, command: readonly string[]): readonly string[] {
  const { bubblewrap, setpriv } = jail
  const switchUser =
    setpriv === undefined || user === null
      ? []
      : [
          setpriv,
          '--reuid',
          String(user),
          '--regid',
          String(user),
          '--clear-groups',
          '--bounding-set=-all',
          '--inh-caps=-all',
        ]
  return [bubblewrap, '--args', '3', '--', ...switchUser, bubblewrap, '--args', '4', '--', ...command]
}

async function canLimitOpenFiles(): Promise<boolean> {
  const result = await runProgram('/bin/sh', ['-c', 'ulimit -n 64 && ulimit -n'])
  return result.isOk && result.output === '64'
}
