import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { chmod, lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Workspace } from '@slipway/agent'
import { type ApplicationBackend, Problem } from '@slipway/protocol'
import { isDirectory, makeDirectory, syncDirectory } from '@slipway/shared/fs'
import { resolvePackageFile } from './manifest.ts'

const maxArchiveBytes = 512 * 1024 * 1024
const maxUnpackedBytes = 2 * 1024 * 1024 * 1024
const timeoutMs = 300_000

type Platform = 'linux-amd64' | 'linux-arm64'

/** The platform of this machine, when programs of applications exist for it. */
export function currentPlatform(): Platform | undefined {
  if (process.platform !== 'linux') return undefined
  return process.arch === 'x64' ? 'linux-amd64' : process.arch === 'arm64' ? 'linux-arm64' : undefined
}

interface ArtifactOptions {
  /** The package that a `path` is relative to. */
  readonly folder: string
  /** Below it are `downloads`, and `artifacts/<name>/<sha256>`. */
  readonly directory: string
  readonly name: string
  readonly environment: Readonly<Record<string, string>>
}

type Artifact = NonNullable<ApplicationBackend['artifacts'][Platform]>

/**
 * Verifies the checksum of an archive and unpacks it read-only; returns the folder. What is unpacked already
 * is not unpacked again. Every archive that is not as the manifest says is a Problem `conflict`, and leaves
 * nothing.
 */
export async function prepareArtifact(
  artifact: Artifact,
  options: ArtifactOptions,
  signal: AbortSignal,
): Promise<string> {
  const { directory, name } = options
  const target = join(directory, 'artifacts', name, artifact.sha256)
  const downloads = join(directory, 'downloads')
  const scratch = join(downloads, randomUUID())
  await makeDirectory(scratch, 0o700)
  try {
    const archive = await findArchive(artifact, options, join(scratch, 'archive'), signal)
    if ((await sha256(archive)) !== artifact.sha256)
      throw new Problem('conflict', 'backend artifact checksum does not match manifest')
    if (await isDirectory(target)) return target
    const unpacked = join(scratch, 'unpacked')
    await mkdir(unpacked)
    await unpack(archive, unpacked, options.environment, signal)
    await makeDirectory(dirname(target), 0o700)
    await makeReadOnly(unpacked)
    // The owner of a folder without the right to write cannot rename it.
    await chmod(unpacked, 0o755)
    await rename(unpacked, target)
    await chmod(target, 0o555)
    await syncDirectory(dirname(target))
    return target
  } finally {
    await removeTree(scratch)
  }
}

async function findArchive(
  { path, url }: Artifact,
  { folder }: ArtifactOptions,
  into: string,
  signal: AbortSignal,
): Promise<string> {
  if (url != null) {
    await download(url, into, AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]))
    return into
  }
  const found = await resolvePackageFile(folder, path ?? '')
  if (found.kind !== 'file') throw new Problem('conflict', 'backend artifact is missing')
  return found.path
}

/** Redirects are refused: the address is what was approved. */
async function download(url: string, into: string, signal: AbortSignal): Promise<void> {
  try {
    const answer = await fetch(url, { redirect: 'error', signal })
    if (!answer.ok || answer.body === null) throw new Error(`status ${answer.status}`)
    await using file = await open(into, 'wx', 0o600)
    let sizeBytes = 0
    for await (const chunk of answer.body) {
      sizeBytes += chunk.length
      if (sizeBytes > maxArchiveBytes) throw new Error('too large')
      await file.writeFile(chunk)
    }
  } catch {
    throw new Problem('conflict', 'backend artifact download failed')
  }
}

async function sha256(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return hash.digest('hex')
}

async function unpack(
  archive: string,
  into: string,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  await using workspace = await Workspace.open({
    directory: into,
    env: { ...env, LC_ALL: 'C' },
    isOfServer: true,
  })
  const run = async (...args: readonly string[]) => {
    const limited = ['-c', `ulimit -f ${maxUnpackedBytes / 512}; exec tar "$@"`, 'tar', ...args]
    const result = await workspace.run('/bin/sh', limited, { timeoutMs }, signal)
    signal.throwIfAborted()
    return result
  }
  const list = await run('-tPzf', archive)
  if (list.exitCode !== 0 || list.isTruncated)
    throw new Problem('conflict', 'backend artifact is not a readable archive')
  const names = list.stdout.toString().split('\n')
  if (names.some((name) => name.startsWith('/') || name.split('/').includes('..'))) throw unsafeEntry()
  const { exitCode } = await run('-xzf', archive, '--no-same-owner', '--no-same-permissions')
  await assertPlainFiles(into)
  if (exitCode !== 0) throw new Problem('conflict', 'backend artifact is not a readable archive')
}

/** Links and devices could lead out of the folder. */
async function assertPlainFiles(directory: string): Promise<void> {
  let sizeBytes = 0
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) continue
    const { nlink, size } = await lstat(join(entry.parentPath, entry.name))
    if (!entry.isFile() || nlink > 1) throw unsafeEntry()
    sizeBytes += size
    if (sizeBytes > maxUnpackedBytes) throw new Problem('conflict', 'backend artifact is too large')
  }
}

function unsafeEntry(): Problem {
  return new Problem('conflict', 'backend artifact contains an unsafe archive entry')
}

async function makeReadOnly(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) await makeReadOnly(path)
    else await chmod(path, ((await lstat(path)).mode & 0o111) === 0 ? 0o444 : 0o555)
  }
  await chmod(directory, 0o555)
}

/** Removes folders without the right to write, too. */
async function removeTree(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true }))
    if (entry.isDirectory()) await chmod(join(entry.parentPath, entry.name), 0o700).catch(() => undefined)
  await rm(directory, { recursive: true, force: true })
}
