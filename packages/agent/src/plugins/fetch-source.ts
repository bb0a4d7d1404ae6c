import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Problem } from '@slipway/protocol'
import { errorCode, makeDirectory } from '@slipway/shared/fs'
import { gitCommand } from '@slipway/shared/process'
import { redactText } from '@slipway/shared/redaction'
import { firstChars } from '@slipway/shared/text'
import { type ProcessResult, Workspace } from '../workspace/workspace.ts'
import { copyDirectory, FileTreeWriter, forEachConcurrent, InvalidTreeError } from './file-tree.ts'
import type { Source } from './source.ts'

const timeoutMs = 120_000
/** Of the pack file that git receives. */
const maxPackBytes = 256 * 1024 * 1024
const maxListBytes = 16 * 1024 * 1024
/** Of the files read from git in one batch. */
const maxBatchBytes = 8 * 1024 * 1024

/**
 * One commit is fetched, and git never prompts. Files are read as git stores them, so filters do not apply.
 */
const gitConfig: readonly (readonly [string, string])[] = [
  ['credential.interactive', 'false'],
  ['fetch.recurseSubmodules', 'false'],
  ['protocol.version', '2'],
]
const gitEnvironment = {
  GIT_ALLOW_PROTOCOL: 'file:https:ssh',
  GIT_ASKPASS: 'false',
  SSH_ASKPASS: 'false',
  GIT_SSH_COMMAND: 'ssh -o BatchMode=yes',
}

interface FetchSourceOptions {
  /** The directory to create; it is complete when this resolves without an issue. */
  readonly into: string
  /** Environment variables for git. */
  readonly environment: Readonly<Record<string, string>>
}

/**
 * Fetches a source into a directory; returns the commit if the source is git. An issue is a sentence without
 * credentials that begins with a verb; then, and on abort, the directory is removed. Rejects when aborted,
 * and with Problem `storage_full` when the disk is full.
 */
export async function fetchSource(
  source: Source,
  options: FetchSourceOptions,
  signal: AbortSignal,
): Promise<{ readonly commit: string | undefined } | { readonly issue: string }> {
  const { into } = options
  try {
    if (source.kind === 'git') return { commit: await fetchGit(source, options, signal) }
    await copyDirectory(join(source.path, source.folder ?? ''), into, signal)
    return { commit: undefined }
  } catch (error) {
    await rm(into, { recursive: true, force: true })
    signal.throwIfAborted()
    if (error instanceof InvalidTreeError) return { issue: error.message }
    const code = errorCode(error)
    if (code === 'ENOSPC' || code === 'EDQUOT') throw new Problem('storage_full', 'The disk is full')
    if (code === undefined) throw error
    return { issue: `cannot be copied (${code})` }
  }
}

type GitSource = Extract<Source, { kind: 'git' }>

async function fetchGit(
  source: GitSource,
  { into, environment }: FetchSourceOptions,
  signal: AbortSignal,
): Promise<string> {
  const directory = join(dirname(into), `.${basename(into)}-${randomUUID()}.git`)
  await makeDirectory(directory, 0o700)
  try {
    await using workspace = await Workspace.open({ directory, env: environment, isOfServer: true })
    const git = createRunGit(workspace, credentialSettings(source), signal)
    const commit = await receiveCommit(git, source)
    await extract(git, `${commit}:${source.folder ?? ''}`, into, signal)
    return commit
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

type RunGit = (
  args: readonly string[],
  options?: { readonly input?: string; readonly maxBytes?: number },
) => Promise<ProcessResult>

interface CredentialSettings {
  readonly config: readonly (readonly [string, string])[]
  readonly env: Readonly<Record<string, string>>
}

/** Runs git commands within one common deadline. */
function createRunGit(
  workspace: Workspace,
  { config, env }: CredentialSettings,
  signal: AbortSignal,
): RunGit {
  const deadlineMs = Date.now() + timeoutMs
  return async (args, options) => {
    const git = gitCommand([`--git-dir=${workspace.directory}`, ...args], {
      config: [...gitConfig, ...config],
      env: { ...gitEnvironment, ...env },
    })
    // The shell limits the file size (in blocks of 512 bytes), for which git has no setting.
    const limited = ['-c', `ulimit -f ${maxPackBytes / 512}; exec "$0" "$@"`, git.command, ...git.args]
    const limit = { env: git.env, timeoutMs: Math.max(1, deadlineMs - Date.now()) }
    const exit = await workspace.run('/bin/sh', limited, { ...options, ...limit }, signal)
    signal.throwIfAborted()
    if (exit.isTimedOut) throw new InvalidTreeError(`took longer than ${timeoutMs / 1000} s`)
    return exit
  }
}

async function receiveCommit(git: RunGit, { url, ref = 'HEAD' }: GitSource): Promise<string> {
  await git(['init', '--quiet', '--bare', '--template='])
  const flags = ['--quiet', '--depth=1', '--no-tags']
  const fetchResult = await git(['fetch', ...flags, '--', url, ref])
  if (fetchResult.exitCode !== 0)
    throw new InvalidTreeError(`cannot be fetched: ${gitFailureReason(fetchResult)}`)
  const { exitCode, stdout } = await git(['rev-parse', '--verify', '--quiet', 'FETCH_HEAD^{commit}'])
  if (exitCode !== 0) throw new InvalidTreeError('names no commit')
  return stdout.toString().trim()
}

interface TreeBlob {
  readonly path: string
  readonly id: string
  readonly sizeBytes: number
  readonly mode: string
}

async function extract(git: RunGit, tree: string, into: string, signal: AbortSignal): Promise<void> {
  const args = ['ls-tree', '-r', '-z', '--long', '--full-tree', tree]
  const listing = await git(args, { maxBytes: maxListBytes })
  if (listing.exitCode !== 0) throw new InvalidTreeError('has no folder of this name')
  if (listing.isTruncated) throw new InvalidTreeError('has too many files')
  const writer = await FileTreeWriter.start(into)
  const blobs = parseTreeListing(listing.stdout)
  for (const { path, sizeBytes } of blobs) writer.reserve(path, sizeBytes)
  for (const batch of batches(blobs)) await writeBatch(git, batch, writer, signal)
  await writer.finish()
}

/** Parses entries `mode type id size TAB path NUL`. Submodules are skipped. */
function parseTreeListing(list: Buffer): TreeBlob[] {
  const blobs: TreeBlob[] = []
  for (let at = 0; at < list.length; ) {
    const end = list.indexOf(0, at)
    const line = list.subarray(at, end)
    at = end + 1
    const tab = line.indexOf(9)
    const [mode = '', type, id = '', size = ''] = line.subarray(0, tab).toString().split(/ +/)
    if (type !== 'blob') continue
    const path = line.subarray(tab + 1)
    if (!isUtf8(path)) throw new InvalidTreeError('holds a name that is not UTF-8')
    blobs.push({ mode, id, sizeBytes: Number(size), path: new TextDecoder().decode(path) })
  }
  return blobs
}

function* batches(blobs: readonly TreeBlob[]): Generator<TreeBlob[]> {
  let batch: TreeBlob[] = []
  let size = 0
  for (const blob of blobs) {
    if (batch.length > 0 && size + blob.sizeBytes > maxBatchBytes) {
      yield batch
      batch = []
      size = 0
    }
    batch.push(blob)
    size += blob.sizeBytes
  }
  if (batch.length > 0) yield batch
}

async function writeBatch(
  git: RunGit,
  batch: readonly TreeBlob[],
  writer: FileTreeWriter,
  signal: AbortSignal,
): Promise<void> {
  const input = `${batch.map(({ id }) => id).join('\n')}\n`
  // A line with id, type and size precedes each content.
  const maxBytes = batch.reduce((sum, { sizeBytes }) => sum + sizeBytes + 200, 0)
  const { exitCode, stdout } = await git(['cat-file', '--batch'], { input, maxBytes })
  if (exitCode !== 0) throw new InvalidTreeError('cannot be read')
  let at = 0
  const files: Parameters<FileTreeWriter['file']>[] = []
  for (const { path, sizeBytes, mode } of batch) {
    const start = stdout.indexOf(10, at) + 1
    at = start + sizeBytes + 1
    if (start === 0 || at > stdout.length) throw new InvalidTreeError('cannot be read')
    const content = stdout.subarray(start, start + sizeBytes)
    if (mode === '120000') writer.link(path, content.toString())
    else files.push([path, content, mode === '100755'])
  }
  await forEachConcurrent(files, (file) => writer.file(...file), signal)
}

/** The helper of git that answers for one origin, with what is in its environment. */
const credentialHelper = `!f() { test "$1" = get && printf 'username=%s\\npassword=%s\\n' "$SOURCE_USER" "$SOURCE_PASSWORD"; }; f`

/**
 * Credentials for the origin of the source alone: git would send a header of its configuration wherever a
 * server redirects it. They are passed in the environment, because every user of the machine can read command
 * lines.
 */
function credentialSettings({ url, credentials }: GitSource): CredentialSettings {
  if (credentials === undefined) return { config: [], env: {} }
  const [, user = '', password = ''] = /^([^:]*):?(.*)$/s.exec(credentials) ?? []
  return {
    config: [
      // No other helper is asked.
      ['credential.helper', ''],
      [`credential.${new URL(url).origin}.helper`, credentialHelper],
    ],
    env: { SOURCE_USER: user, SOURCE_PASSWORD: password },
  }
}

/** The error message of git, redacted. */
function gitFailureReason({ exitCode, stderr }: ProcessResult): string {
  if (exitCode === 127) return 'git is not installed'
  const output = stderr.toString()
  if (output.includes('signal 25')) return `it is larger than ${maxPackBytes / 1024 / 1024} MiB`
  if (/could not read (Username|Password)|Authentication failed/.test(output))
    return 'it asks for credentials, and there are none or they are wrong'
  const lines = output.split('\n').filter((line) => line !== '')
  const message = lines.find((line) => /^(fatal|error):/.test(line)) ?? lines[0] ?? 'git failed'
  return firstChars(redactText(message.replace(/^(fatal|error): /, '')), 300)
}
