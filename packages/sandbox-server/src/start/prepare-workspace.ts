import { posix } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import type { StartTaskStatus } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'
import { firstChars, shellQuote } from '@slipway/shared/text'
import type { Clock } from '@slipway/shared/time'
import type { Repository } from '../accounts/git-repository.ts'
import type { RepositoryScripts } from '../accounts/script-consents.ts'
import type { AgentTarget } from '../network/agent-target.ts'
import { type CommandResult, execCommand, uploadFile } from '../sandboxes/sandbox-exec.ts'
import { truncateStart } from './truncate-start.ts'

export const defaultPrepareTimeouts = {
  cloneMs: 120_000,
  setupMs: 600_000,
  stepMs: 30_000,
  consentMs: 3_600_000,
}
export type PrepareTimeouts = Readonly<typeof defaultPrepareTimeouts>

export interface GitIdentity {
  readonly name?: string | null | undefined
  readonly email?: string | null | undefined
}

export interface PrepareOptions {
  /** The project, or the parent of a repository's directory. Absolute, as seen from inside the sandbox. */
  readonly directory: string
  readonly repository: Repository | undefined
  readonly branch: string | undefined
  /** The branch to create when none is chosen. */
  readonly newBranch: string
  readonly isFullClone: boolean
  readonly identity: GitIdentity
  readonly limits: PrepareTimeouts
  readonly clock: Clock
  readonly fetch: typeof fetch
  readonly signal: AbortSignal
  /** Decides about the scripts of the repository, and may wait for that; without it they run. */
  readonly mayRunScripts?: ((scripts: Omit<RepositoryScripts, 'repository'>) => Promise<boolean>) | undefined
  /** Called before each step with its status, and awaited. */
  onStep(status: StartTaskStatus): Promise<void>
  /** For the owner. May contain secrets: the caller redacts them. */
  onWarning(text: string): void
}

/** The workspace cannot be prepared. `message` is for the owner and may contain secrets. */
export class PrepareError extends Error {
  override readonly name = 'PrepareError'
}

/** Bound of the output in a message. */
const maxReportedCharacters = 2_000

/**
 * Returns the directory of the project (wire 3.2). A failed clone is a `PrepareError`: an agent would not
 * notice it. A failed setup script or hook is a warning. Repeatable: existing work is not changed.
 */
export async function prepareWorkspace(target: AgentTarget, options: PrepareOptions): Promise<string> {
  const { directory, repository, identity, limits, clock, signal, onStep, onWarning } = options
  const exec = (command: string, timeoutMs: number) =>
    execCommand(target, command, { timeoutMs, clock, signal })
  const warnOnFailure = async (warning: string, command: string) => {
    const result = await exec(command, limits.stepMs)
    if (result.exitCode !== 0) onWarning(`${warning}: ${describeOutput(result)}`)
  }
  const projectDir = repository === undefined ? directory : posix.join(directory, repository.name)
  await onStep('PREPARING_REPOSITORY')
  const identityCommands = setIdentityCommands(identity)
  if (identityCommands.length > 0)
    await warnOnFailure('The git identity could not be set', identityCommands.join('\n'))
  if (repository === undefined) {
    const result = await exec(initCommand(directory), limits.stepMs)
    if (result.exitCode !== 0)
      throw new PrepareError(`The workspace could not be created: ${describeOutput(result)}`)
  } else await cloneRepository(target, exec, { ...options, repository, projectDir })
  await onStep('RUNNING_SETUP_SCRIPT')
  const scripts = await checkScripts(exec, projectDir, options)
  const setup = scripts.mayRun
    ? await exec(setupCommand(projectDir, scripts.setupDigest), limits.setupMs)
    : skipped
  if (setup.exitCode !== 0) {
    const reason =
      setup.exitCode === -1
        ? `took longer than ${limits.setupMs / 1000} s`
        : `failed with exit code ${setup.exitCode}`
    onWarning(`.openhands/setup.sh ${reason}: ${describeOutput(setup)}`)
  }
  await onStep('SETTING_UP_GIT_HOOKS')
  if (scripts.mayRun)
    await warnOnFailure(
      'The git hook could not be installed',
      commitHookCommand(projectDir, scripts.hookDigest),
    )
  return projectDir
}

/** Another start in the same sandbox may hold the lock of the configuration. */
const retryCommand = (command: string) =>
  `for i in 1 2 3 4 5 6 7 8; do ${command} && break; [ $i = 8 ] && exit 1; sleep 0.2; done`

/**
 * Also notes what was set: a value that differs from its note is not ours, and `keepsOthers` leaves it as it
 * is.
 */
function setIdentityCommands({ name, email }: GitIdentity, { keepsOthers = false } = {}): string[] {
  return Object.entries({ name, email }).flatMap(([key, value]) => {
    if (!value) return []
    const set = (of: string) => retryCommand(`git config --global ${of} ${shellQuote(value)}`)
    const commands = `${set(`user.${key}`)}\n${set(`slipway.user${key}`)}`
    if (!keepsOthers) return [commands]
    return [
      `is=$(git config --global --get user.${key})
if [ -z "$is" ] || [ "$is" = "$(git config --global --get slipway.user${key})" ]; then
${commands}
fi`,
    ]
  })
}

/** Makes git in a sandbox what starts made it, unless something else chose another identity since. */
export function renewGitCommand(identity: GitIdentity, projectDirs: readonly string[]): string {
  return [
    'command -v git >/dev/null || exit 0',
    ...setIdentityCommands(identity, { keepsOthers: true }),
    ...(projectDirs.length === 0 ? [] : [trustDirectories(projectDirs)]),
  ].join('\n')
}

/**
 * Git refuses directories of other users, and mounted ones often are. A sandbox may have a thousand projects:
 * the command stays below 128 KiB, and starts no program for those that are trusted.
 */
const trustDirectories = (directories: readonly string[]) =>
  `trusted=$(git config --global --get-all safe.directory)
for directory in ${directories.map(shellQuote).join(' ')}; do
  case $'\\n'"$trusted"$'\\n' in *$'\\n'"$directory"$'\\n'*) continue ;; esac
  ${retryCommand('git config --global --add safe.directory "$directory"').replace('exit 1', 'true')}
done`

function initCommand(directory: string): string {
  return `mkdir -p -- ${shellQuote(directory)} && cd -- ${shellQuote(directory)} || exit 1
command -v git >/dev/null || exit 0
${trustDirectories([directory])}
[ -e .git ] || git init --quiet`
}

type Exec = (command: string, timeoutMs: number) => Promise<CommandResult>
type CloneOptions = PrepareOptions & { readonly repository: Repository; readonly projectDir: string }

async function cloneRepository(target: AgentTarget, exec: Exec, options: CloneOptions): Promise<void> {
  const { repository, limits } = options
  if (repository.login === undefined) return await runClone(exec, options, undefined)
  // The token is in a private file while the clone runs, and in no command line: the system shows those, and
  // the agent server stores them.
  const temporary = await exec('umask 077 && mktemp -d', limits.stepMs)
  const directory = temporary.stdout.trim()
  if (temporary.exitCode !== 0 || !/^\/[\w./-]+$/.test(directory))
    throw new PrepareError(`No temporary directory could be created: ${describeOutput(temporary)}`)
  try {
    const file = posix.join(directory, 'login')
    await uploadFile(target, file, credentialFile(repository.url, repository.login), options)
    await runClone(exec, options, file)
  } finally {
    // With its own signal: a cancelled start removes the token too.
    const signal = options.clock.timeout(limits.stepMs)
    await execCommand(target, `rm -rf -- ${shellQuote(directory)}`, {
      timeoutMs: limits.stepMs,
      clock: options.clock,
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

/** Clones beside the project directory and renames, so that the project is always complete. */
async function runClone(exec: Exec, options: CloneOptions, loginPath: string | undefined): Promise<void> {
  const { projectDir, repository, branch, newBranch, isFullClone, limits, directory } = options
  const draft = `${projectDir}.slipway-clone`
  const helper =
    loginPath === undefined ? '' : `-c ${shellQuote(`credential.helper=store --file=${loginPath}`)}`
  const command = `command -v git >/dev/null || { echo 'git is not installed in the sandbox' >&2; exit 1; }
${loginPath === undefined ? '' : `trap ${shellQuote(`rm -rf -- ${shellQuote(posix.dirname(loginPath))}`)} EXIT`}
mkdir -p -- ${shellQuote(directory)} && cd -- ${shellQuote(directory)} || exit 1
${trustDirectories([projectDir])}
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
  const result = await exec(command, limits.cloneMs)
  if (result.exitCode === 0) return
  const reason = result.exitCode === -1 ? `it took longer than ${limits.cloneMs / 1000} s. ` : ''
  throw new PrepareError(
    `The repository ${repository.url} could not be cloned: ${reason}${describeOutput(result)}`,
  )
}

const skipped: CommandResult = { exitCode: 0, stdout: '', stderr: '' }
const setupFile = '.openhands/setup.sh'
const hookFile = '.openhands/pre-commit.sh'
/** Of a script that a person decides about. */
const maxShownCharacters = 1_000

/** Whether the scripts may run, and their digests when they must not change. */
async function checkScripts(
  exec: Exec,
  projectDir: string,
  { mayRunScripts, limits, onWarning }: PrepareOptions,
): Promise<{
  readonly mayRun: boolean
  readonly setupDigest?: string | undefined
  readonly hookDigest?: string | undefined
}> {
  if (mayRunScripts === undefined) return { mayRun: true }
  const { exitCode, stdout } = await exec(digestCommand(projectDir), limits.stepMs)
  const digests = stdout.trim()
  if (exitCode === 0 && digests === '') return { mayRun: true }
  const digestOf = (file: string) => new RegExp(`^([0-9a-f]{64}) ${file}$`, 'm').exec(digests)?.[1]
  const [setupDigest, hookDigest] = [digestOf(setupFile), digestOf(hookFile)]
  if (exitCode === 0) {
    const items = await Promise.all(
      [setupFile, hookFile]
        .filter((file) => digestOf(file) !== undefined)
        .map(async (path) => ({
          kind: 'script' as const,
          path,
          name: posix.basename(path, '.sh'),
          command: firstChars(
            (await exec(readCommand(projectDir, path), limits.stepMs)).stdout,
            maxShownCharacters,
          ),
        })),
    )
    if (await mayRunScripts({ content: digests, items })) return { mayRun: true, setupDigest, hookDigest }
  }
  onWarning(
    `The scripts of the repository need consent and did not run; repository_scripts of a start decides:\n${digests}`,
  )
  return { mayRun: false }
}

/** Prints `<SHA-256> <file>` for each script that is there. */
function digestCommand(projectDir: string): string {
  return `cd -- ${shellQuote(projectDir)} || exit 1
for file in ${setupFile} ${hookFile}; do
  [ -f "$file" ] || continue
  digest=$(sha256sum < "$file") || exit 1
  printf '%s %s\\n' "\${digest%% *}" "$file"
done`
}

function readCommand(projectDir: string, file: string): string {
  return `cd -- ${shellQuote(projectDir)} && head -c ${4 * maxShownCharacters} -- ${file}`
}

/** Runs a command when the file has changed since the consent to it. */
function changedCheck(file: string, digest: string | undefined, exit: string): string {
  if (digest === undefined) return ''
  return `case "$(sha256sum < ${file})" in ${digest}*) ;; *)
  echo '${file} has changed since the consent to it, and does not run' >&2; ${exit} ;;
esac
`
}

/** The script is sourced in the root of the project. */
function setupCommand(projectDir: string, digest: string | undefined): string {
  return `cd -- ${shellQuote(projectDir)} || exit 1
[ -f ${setupFile} ] || exit 0
${changedCheck(setupFile, digest, 'exit 1')}. ./${setupFile} </dev/null`
}

const hookMarker = '# made from .openhands/pre-commit.sh'

/** An existing hook runs first. The script does not become executable: that would change the project. */
function commitHookCommand(projectDir: string, digest: string | undefined): string {
  const check = changedCheck(hookFile, digest, 'exit 0')
  const script = `#!/bin/sh
${hookMarker}
own="$(dirname -- "$0")/pre-commit.local"
if [ -x "$own" ]; then "$own" "$@" || exit $?; fi
${check}if [ -x .openhands/pre-commit.sh ]; then exec ./.openhands/pre-commit.sh "$@"; fi
exec bash .openhands/pre-commit.sh "$@"
`
  return `cd -- ${shellQuote(projectDir)} || exit 1
[ -f .openhands/pre-commit.sh ] || exit 0
hooks=$(git rev-parse --git-path hooks) && mkdir -p -- "$hooks" || exit 1
if [ -e "$hooks/pre-commit" ] && ! grep -Fq ${shellQuote(hookMarker)} "$hooks/pre-commit"; then
  mv -- "$hooks/pre-commit" "$hooks/pre-commit.local" || exit 1
fi
printf '%s' ${shellQuote(script)} > "$hooks/pre-commit" && chmod +x "$hooks/pre-commit"`
}

/** The end of an output, without terminal control sequences. */
export function describeOutput({ stdout, stderr }: CommandResult): string {
  const text = stripVTControlCharacters(`${stdout}\n${stderr}`).replace(/[^\P{Cc}\n\t]/gu, '')
  return truncateStart(text.trim(), maxReportedCharacters)
}
