import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { pipeline } from 'node:stream/promises'
import { lastChars } from '@slipway/shared/text'
import { FilesError } from '../backend.ts'
import { bytesLocale, checkSize, emptyArguments, packArguments, unpackArguments } from '../file-tree.ts'
import { hostEnvironment } from './host/run-program.ts'
import type { HostCapabilities } from './host-capabilities.ts'
import type { SandboxPaths } from './sandbox-paths.ts'
import { measureDisk } from './sandbox-processes.ts'
import type { SandboxRecord } from './sandbox-record.ts'

const timeoutMs = 1_800_000

export interface SandboxTree {
  readonly paths: SandboxPaths
  readonly record: SandboxRecord
}

type Jail = HostCapabilities['jail']

/** Both are frozen: nothing of a sandbox changes a path while this server, which may be root, uses it. */
export async function copyTrees(
  from: SandboxTree,
  to: SandboxTree,
  maxBytes: number,
  { jail }: Pick<HostCapabilities, 'jail'>,
): Promise<void> {
  checkSize((await measureDisk(from.paths, from.record)) ?? 0, maxBytes)
  for (const name of ['workspace', 'homeDirectory', 'externalWorkingDir'] as const) {
    const [source, target] = [from.paths[name], to.paths[name]]
    const writer = writeAs(to.record, jail)
    await runAll([start([...writer, 'find', ...emptyArguments()], target)])
    const reader = start([...readAsOwner(jail), 'tar', ...packArguments()], source)
    const unpack = start([...writer, 'tar', ...unpackArguments('user')], target)
    await runAll([reader, unpack], pipeline(reader.stdout, unpack.stdin))
  }
}

/** An ordinary user reads its files of mode 000 in its own user namespace. */
function readAsOwner(jail: Jail): readonly string[] {
  if (jail === undefined || process.getuid?.() === 0) return []
  const rights = ['CAP_DAC_READ_SEARCH', 'CAP_DAC_OVERRIDE'].flatMap((right) => ['--cap-add', right])
  const namespace = [
    '--unshare-user',
    '--uid',
    '0',
    '--gid',
    '0',
    '--dev-bind',
    '/',
    '/',
    '--die-with-parent',
  ]
  return [jail.bubblewrap, ...namespace, ...rights, '--']
}

/** As its own user, so that nothing in the tree reaches further than the sandbox does. */
function writeAs({ user }: SandboxRecord, jail: Jail): readonly string[] {
  if (user === null || jail?.setpriv === undefined) return []
  const id = String(user)
  return [
    jail.setpriv,
    '--reuid',
    id,
    '--regid',
    id,
    '--clear-groups',
    '--bounding-set=-all',
    '--inh-caps=-all',
  ]
}

function start([program = '', ...args]: readonly string[], cwd: string) {
  const env = { ...hostEnvironment, ...bytesLocale }
  return spawn(program, args, { cwd, env, stdio: 'pipe', timeout: timeoutMs, killSignal: 'SIGKILL' })
}

/** When one of them fails, the others end too. */
async function runAll(programs: readonly ReturnType<typeof start>[], pipe?: Promise<void>): Promise<void> {
  let complaints = ''
  for (const { stderr } of programs)
    stderr.on('data', (part: Buffer) => {
      complaints = lastChars(complaints + part.toString('latin1'), 2_000)
    })
  const ends = programs.map((each) => once(each, 'close'))
  const [, ...codes] = await Promise.allSettled([pipe, ...ends])
  const isDone = codes.every((end) => end.status === 'fulfilled' && end.value[0] === 0)
  if (!isDone) throw new FilesError(`Its files cannot be copied: ${complaints.trim() || 'tar was ended'}`)
}
