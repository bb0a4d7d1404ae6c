import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { makeDirectory } from '@slipway/shared/fs'
import type { Isolation, Resources } from '../backend.ts'
import { type Jail, jailCommand } from './bubblewrap/arguments.ts'
import { type PrivateNetwork, pastaCommand } from './bubblewrap/private-network.ts'
import { spawnWithFds } from './bubblewrap/spawn-with-fds.ts'
import { detectCgroupHierarchies, limitedResources } from './cgroups/cgroups.ts'
import { canLimitDisk } from './host/disk-image.ts'
import { waitUntil } from './host/files.ts'
import { findProgram, runProgram } from './host/run-program.ts'
import { readLastOutput } from './output.ts'
import { hostUserId, sandboxPaths } from './sandbox-paths.ts'
import { launchSupervisor, readExit } from './supervisor.ts'

export type HostCapabilities = Awaited<ReturnType<typeof detectHostCapabilities>>

export type IsolationMode = 'auto' | 'bubblewrap' | 'none'

/** How this host can isolate and limit sandboxes, found by trying below `probePrefix…`. */
export async function detectHostCapabilities(probePrefix: string, mode: IsolationMode, mayLimit: boolean) {
  await makeDirectory(dirname(probePrefix), 0o700)
  const [jail, hierarchies, canLimit, canLimitFiles] = await Promise.all([
    mode === 'none' ? 'it was switched off' : detectJail(probePrefix),
    mayLimit && process.platform === 'linux' ? detectCgroupHierarchies() : [],
    mayLimit && canLimitDisk(probePrefix),
    canLimitOpenFiles(),
  ])
  const features = new Set(hierarchies.flatMap((each) => each.features))
  const limited = (['memory', 'pids', 'cpu'] as const).filter((feature) => features.has(feature))
  const enforced: (keyof Resources)[] = limited.map((feature) => limitedResources[feature])
  if (canLimit) enforced.push('diskBytes')
  if (canLimitFiles) enforced.push('maxOpenFiles')
  const isJailed = typeof jail !== 'string'
  const notes: string[] = []
  const network = isJailed ? await detectNetwork(jail, probePrefix) : 'it needs bubblewrap'
  const networkFailure = typeof network === 'string' ? `pasta is not in use: ${network}.` : ''
  if (isJailed) {
    notes.push(
      networkFailure === ''
        ? 'The kernel is shared.'
        : `The kernel and, unless a sandbox has no network, the network of the host with its loopback ports are shared: ${networkFailure}`,
    )
  } else {
    notes.push(
      `Sandboxes are processes like any other of the server's user: they see and may change what it may. ` +
        `Bubblewrap is not in use: ${jail}.`,
    )
    if (!features.has('freeze'))
      notes.push(
        'Processes that leave their session and clear their environment may be overlooked where there are no control groups.',
      )
  }
  const missing = Object.values(limitedResources).filter((resource) => !enforced.includes(resource))
  if (missing.length > 0)
    notes.push(
      `Not limited: ${missing.join(', ')}. Needs control groups (cgroups) that the server may write.`,
    )
  if (!canLimit)
    notes.push(
      'Not limited: diskBytes, only the size of single files is. Needs root, e2fsprogs and loop devices.',
    )
  const isolation: Isolation = { kind: isJailed ? 'namespaces' : 'none', enforced, notes }
  return {
    jail: isJailed ? { ...jail, network: typeof network === 'string' ? undefined : network } : undefined,
    /** Why sandboxes have no separate network; empty when they can. */
    networkFailure,
    hierarchies,
    canLimitDisk: canLimit,
    isolation,
  }
}

/**
 * Starts a program with its own network, as sandboxes will be started. A text says why that is not
 * possible.
 */
async function detectNetwork(jail: Jail, probePrefix: string): Promise<PrivateNetwork | string> {
  const [pasta, setpriv, ip] = await Promise.all(['pasta', 'setpriv', 'ip'].map(findProgram))
  if (pasta === undefined) return 'it is not installed (package passt)'
  if (setpriv === undefined || ip === undefined)
    return 'it needs setpriv and ip (packages util-linux and iproute2)'
  const network = { pasta, setpriv }
  const probeDirectory = await mkdtemp(probePrefix)
  try {
    return (await tryNetwork({ ...jail, network }, network, probeDirectory)) ?? network
  } finally {
    await rm(probeDirectory, { recursive: true, force: true })
  }
}

async function tryNetwork(
  jail: Jail,
  network: PrivateNetwork,
  probeDirectory: string,
): Promise<string | undefined> {
  const paths = sandboxPaths(dirname(probeDirectory), basename(probeDirectory))
  const epoch = 'probe'
  await writeFile(paths.record, `${epoch}\n`)
  const jailed = await jailCommand(jail, { ...probeOptions(jail), network: 'private' }, ['/bin/true'])
  const pasta = pastaCommand(network, jail.setpriv !== undefined, [])
  const limits = { groups: [], maxOpenFiles: undefined, maxFileBytes: undefined }
  await launchSupervisor({ ...jailed, ...limits, paths, epoch, pasta, env: undefined, cwd: paths.root })
  await waitUntil(async () => (await readExit(paths, epoch)) !== undefined, 60_000)
  if ((await readExit(paths, epoch))?.code === 0) return undefined
  return `it does not work here (${(await readLastOutput(paths.root)) || 'no answer'})`
}

function probeOptions(jail: Jail) {
  return {
    user: jail.setpriv === undefined ? null : hostUserId('', ''),
    env: { PATH: '/usr/bin:/bin' },
    workingDir: '/tmp',
    temporaryBytes: 1 << 20,
  } as const
}

/** Runs a program as sandboxes will run. A text says why that is not possible. */
async function detectJail(probePrefix: string): Promise<Jail | string> {
  if (process.platform !== 'linux') return 'it exists on Linux only'
  const [bubblewrap, setpriv] = await Promise.all(['bwrap', 'setpriv'].map(findProgram))
  if (bubblewrap === undefined) return 'it is not installed (package bubblewrap)'
  const isRoot = process.getuid?.() === 0
  if (isRoot && setpriv === undefined) return 'it needs setpriv (package util-linux) when the server is root'
  const { output: help } = await runProgram(bubblewrap, ['--help'])
  const canForbidUsers = help.includes('--disable-userns')
  const jail = { bubblewrap, setpriv: isRoot ? setpriv : undefined, canForbidUsers, network: undefined }
  const probeDirectory = await mkdtemp(probePrefix)
  try {
    return (await tryJail(jail, probeDirectory)) ?? jail
  } finally {
    await rm(probeDirectory, { recursive: true, force: true })
  }
}

async function tryJail(jail: Jail, probeDirectory: string): Promise<string | undefined> {
  const jailed = await jailCommand(jail, { ...probeOptions(jail), network: 'none' }, [
    '/bin/sh',
    '-c',
    'read -r x < /proc/self/stat',
  ])
  const { child, ended } = await spawnWithFds(jailed, probeDirectory, ['ignore', 'ignore', 'pipe'])
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000)
  let errorOutput = ''
  child.stderr?.on('data', (part: Buffer) => {
    errorOutput += part.toString()
  })
  const code = await ended.finally(() => clearTimeout(timer))
  if (typeof code === 'string') return code
  return code === 0 ? undefined : `it does not work here (${errorOutput.trim() || code})`
}

async function canLimitOpenFiles(): Promise<boolean> {
  const result = await runProgram('/bin/sh', ['-c', 'ulimit -n 64 && ulimit -n'])
  return result.isOk && result.output === '64'
}
