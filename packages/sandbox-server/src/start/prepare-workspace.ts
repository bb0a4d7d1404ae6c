import { posix } from 'node:path'
import type { StartTaskStatus } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'
import { truncateStart } from '../redaction/redactor.ts'
import {
  type CommandResult,
  type ExecTarget,
  execCommand,
  shellQuote,
  uploadFile,
} from '../sandboxes/sandbox-exec.ts'
import type { Repository } from './git-repository.ts'

/** How long each step may take. */
export interface PrepareTimeouts {
  readonly cloneMs: number
  readonly setupMs: number
  readonly stepMs: number
}

export const defaultPrepareTimeouts: PrepareTimeouts = { cloneMs: 120_000, setupMs: 600_000, stepMs: 30_000 }

export interface PrepareOptions {
  /** Where it goes: the repository into a directory of its own below it. Absolute, as seen from inside. */
  readonly directory: string
  readonly repository: Repository | undefined
  readonly branch: string | undefined
  /** The branch that is made when none is chosen. */
  readonly newBranch: string
  readonly isFullClone: boolean
  readonly identity: { readonly name?: string | undefined; readonly email?: string | undefined }
  readonly limits: PrepareTimeouts
  readonly fetch: typeof fetch
  readonly signal: AbortSignal
  /** Called before each step with its status, and awaited. */
  onStep(status: StartTaskStatus): Promise<void>
  /** What did not go as wished, for the owner. May hold secrets: it is for the caller to hide them. */
  onWarning(text: string): void
}

/** The workspace cannot be made ready. `message` is for the owner; it may hold secrets. */
export class PrepareError extends Error {}

/** Of an output as it is told. */
const maxReportedCharacters = 2_000

/**
 * Makes the workspace of a conversation ready (wire 3.2) and answers where its agent works. A repository that cannot be
 * cloned is a `NotPrepared`: an agent in an empty directory would not notice. A setup script or hook that fails is trouble.
 * What was prepared before stays as it is, so that a start can be repeated.
 */
export async function prepareWorkspace(target: ExecTarget, options: PrepareOptions): Promise<string> {
  const { directory, repository, onStep } = options
  await onStep('PREPARING_REPOSITORY')
  const projectDir = repository === undefined ? directory : posix.join(directory, repository.name)
  await setGitIdentity(target, options)
  if (repository === undefined) await initWorkspace(target, projectDir, options)
  else await cloneRepository(target, { ...options, repository, projectDir })
  await onStep('RUNNING_SETUP_SCRIPT')
  await runSetupScript(target, projectDir, options)
  await onStep('SETTING_UP_GIT_HOOKS')
  await installCommitHook(target, projectDir, options)
  return projectDir
}

/** Another start in the same sandbox may hold the lock of the configuration. */
const retryCommand = (command: string) =>
  `for i in 1 2 3 4 5 6 7 8; do ${command} && break; [ $i = 8 ] && exit 1; sleep 0.2; done`

async function setGitIdentity(target: ExecTarget, options: PrepareOptions): Promise<void> {
  const { name, email } = options.identity
  const set = (key: string, value: string | undefined) =>
    value === undefined ? '' : retryCommand(`git config --global ${key} ${shellQuote(value)}`)
  const commands = [set('user.name', name), set('user.email', email)].filter((command) => command !== '')
  if (commands.length === 0) return
  const result = await runStep(target, commands.join('\n'), options)
  if (result.exitCode !== 0) options.onWarning(`The git identity could not be set: ${describeOutput(result)}`)
}

/** Git refuses directories of other users, and mounted ones often are. */
const trustDirectory = (directory: string) =>
  `git config --global --get-all safe.directory | grep -Fxq -- ${shellQuote(directory)} || ${retryCommand(
    `git config --global --add safe.directory ${shellQuote(directory)}`,
  ).replace('exit 1', 'true')}`

async function initWorkspace(target: ExecTarget, directory: string, options: PrepareOptions): Promise<void> {
  const command = `mkdir -p -- ${shellQuote(directory)} && cd -- ${shellQuote(directory)} || exit 1
command -v git >/dev/null || exit 0
${trustDirectory(directory)}
[ -e .git ] || git init --quiet`
  const result = await runStep(target, command, options)
  if (result.exitCode !== 0)
    throw new PrepareError(`The workspace could not be made: ${describeOutput(result)}`)
}

type CloneOptions = PrepareOptions & { readonly repository: Repository; readonly projectDir: string }

async function cloneRepository(target: ExecTarget, options: CloneOptions): Promise<void> {
  const { login } = options.repository
  if (login === undefined) return await runClone(target, options, undefined)
  // The token is in a file that only this user may read, for as long as the clone takes; it is in no command line, because
  // those are shown by the system and kept by the agent server.
  const mktempResult = await runStep(target, 'umask 077 && mktemp -d', options)
  const directory = mktempResult.stdout.trim()
  if (mktempResult.exitCode !== 0 || !/^\/[\w./-]+$/.test(directory))
    throw new PrepareError(`There is no place for temporary files: ${describeOutput(mktempResult)}`)
  try {
    const file = posix.join(directory, 'login')
    await uploadFile(target, file, credentialFile(options.repository.url, login), options)
    await runClone(target, options, file)
  } finally {
    // Also when the start was cancelled: then the command may still be waiting for the other side.
    const signal = AbortSignal.timeout(options.limits.stepMs)
    await execCommand(target, `rm -rf -- ${shellQuote(directory)}`, {
      timeoutMs: options.limits.stepMs,
      signal,
    }).catch(() => options.onWarning(`The temporary directory ${directory} could not be removed`))
  }
}

/** One line as the credential helper `store` of git reads it. */
function credentialFile(url: string, login: { readonly user: string; readonly password: Secret }): Buffer {
  const { protocol, host } = new URL(url)
  const user = encodeURIComponent(login.user)
  return Buffer.from(`${protocol}//${user}:${encodeURIComponent(login.password.reveal())}@${host}\n`)
}

/** A clone is made beside its place and then moved, so that what is there is whole. */
async function runClone(
  target: ExecTarget,
  options: CloneOptions,
  loginPath: string | undefined,
): Promise<void> {
  const { projectDir, repository, branch, newBranch, isFullClone, limits, directory } = options
  const draft = `${projectDir}.slipway-clone`
  const helper =
    loginPath === undefined ? '' : `-c ${shellQuote(`credential.helper=store --file=${loginPath}`)}`
  const command = `command -v git >/dev/null || { echo 'git is not installed in the sandbox' >&2; exit 1; }
${loginPath === undefined ? '' : `trap ${shellQuote(`rm -rf -- ${shellQuote(posix.dirname(loginPath))}`)} EXIT`}
mkdir -p -- ${shellQuote(directory)} && cd -- ${shellQuote(directory)} || exit 1
${trustDirectory(projectDir)}
[ -e ${shellQuote(`${projectDir}/.git`)} ] && exit 0
rm -rf -- ${shellQuote(draft)}
export GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=true SSH_ASKPASS=true GIT_ALLOW_PROTOCOL=https:http:ssh:git:file
export GIT_SSH_COMMAND='ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new'
git -c credential.helper= ${helper} clone --quiet ${isFullClone ? '' : '--depth 1'} ${
    branch === undefined ? '' : `--branch ${shellQuote(branch)}`
  } -- ${shellQuote(repository.url)} ${shellQuote(draft)} </dev/null || { code=$?; rm -rf -- ${shellQuote(draft)}; exit $code; }
${branch === undefined ? `git -C ${shellQuote(draft)} checkout --quiet -b ${shellQuote(newBranch)} || exit 1` : ''}
[ ! -e ${shellQuote(projectDir)} ] || rmdir -- ${shellQuote(projectDir)} || { rm -rf -- ${shellQuote(draft)}; exit 1; }
mv -- ${shellQuote(draft)} ${shellQuote(projectDir)}`
  const result = await execCommand(target, command, { timeoutMs: limits.cloneMs, signal: options.signal })
  if (result.exitCode === 0) return
  const reason = result.exitCode === -1 ? `it took longer than ${limits.cloneMs / 1000} s. ` : ''
  throw new PrepareError(
    `The repository ${repository.url} could not be cloned: ${reason}${describeOutput(result)}`,
  )
}

/** The script is sourced in the root of the project (it may set nothing for the agent, but finds its own files there). */
async function runSetupScript(
  target: ExecTarget,
  projectDir: string,
  options: PrepareOptions,
): Promise<void> {
  const { limits, signal, onWarning } = options
  const command = `cd -- ${shellQuote(projectDir)} || exit 1
[ -f .openhands/setup.sh ] || exit 0
. ./.openhands/setup.sh </dev/null`
  const result = await execCommand(target, command, { timeoutMs: limits.setupMs, signal })
  if (result.exitCode === 0) return
  const reason =
    result.exitCode === -1
      ? `took longer than ${limits.setupMs / 1000} s`
      : `failed with exit code ${result.exitCode}`
  onWarning(`.openhands/setup.sh ${reason}: ${describeOutput(result)}`)
}

const hookMarker = '# made from .openhands/pre-commit.sh'

/**
 * Installs the project's script as the hook of commits; a hook that was there before runs first. The script is not made executable,
 * because that would be a change of the project.
 */
async function installCommitHook(
  target: ExecTarget,
  projectDir: string,
  options: PrepareOptions,
): Promise<void> {
  const script = `#!/bin/sh
${hookMarker}
own="$(dirname -- "$0")/pre-commit.local"
if [ -x "$own" ]; then "$own" "$@" || exit $?; fi
if [ -x .openhands/pre-commit.sh ]; then exec ./.openhands/pre-commit.sh "$@"; fi
exec bash .openhands/pre-commit.sh "$@"
`
  const command = `cd -- ${shellQuote(projectDir)} || exit 1
[ -f .openhands/pre-commit.sh ] || exit 0
hooks=$(git rev-parse --git-path hooks) && mkdir -p -- "$hooks" || exit 1
if [ -e "$hooks/pre-commit" ] && ! grep -Fq ${shellQuote(hookMarker)} "$hooks/pre-commit"; then
  mv -- "$hooks/pre-commit" "$hooks/pre-commit.local" || exit 1
fi
printf '%s' ${shellQuote(script)} > "$hooks/pre-commit" && chmod +x "$hooks/pre-commit"`
  const result = await runStep(target, command, options)
  if (result.exitCode !== 0)
    options.onWarning(`The git hook could not be installed: ${describeOutput(result)}`)
}

async function runStep(
  target: ExecTarget,
  command: string,
  { limits, signal }: PrepareOptions,
): Promise<CommandResult> {
  return await execCommand(target, command, { timeoutMs: limits.stepMs, signal })
}

/** The end of what a command printed, without what only a terminal shows. */
function describeOutput({ stdout, stderr }: CommandResult): string {
  const text = `${stdout}\n${stderr}`
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is removed
    .replace(/\u001b\[[0-9;?]*[A-Za-z]|[\u0000-\u0008\u000b-\u001f\u007f]/g, '')
    .trim()
  return truncateStart(text, maxReportedCharacters)
}
