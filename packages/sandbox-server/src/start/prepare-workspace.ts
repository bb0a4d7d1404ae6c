import { posix } from 'node:path'
import type { Secret, StartTaskStatus } from '@slipway/protocol'
import { endOf } from '../redaction/redactor.ts'
import { type Inside, quote, type Ran, run, upload } from '../sandboxes/sandbox-exec.ts'
import type { Repository } from './git-repository.ts'

/** How long each step may take. */
export interface PrepareLimits {
  readonly cloneMs: number
  readonly setupMs: number
  readonly stepMs: number
}

export const prepareLimits: PrepareLimits = { cloneMs: 120_000, setupMs: 600_000, stepMs: 30_000 }

export interface Preparation {
  /** Where it goes: the repository into a directory of its own below it. Absolute, as seen from inside. */
  readonly directory: string
  readonly repository: Repository | undefined
  readonly branch: string | undefined
  /** The branch that is made when none is chosen. */
  readonly newBranch: string
  readonly isFullClone: boolean
  readonly identity: { readonly name?: string | undefined; readonly email?: string | undefined }
  readonly limits: PrepareLimits
  readonly reach: typeof fetch
  readonly signal: AbortSignal
  /** Called before each step with its status, and awaited. */
  onStep(status: StartTaskStatus): Promise<void>
  /** What did not go as wished, for the owner. May hold secrets: it is for the caller to hide them. */
  onTrouble(text: string): void
}

/** The workspace cannot be made ready. `message` is for the owner; it may hold secrets. */
export class NotPrepared extends Error {}

/** Of an output as it is told. */
const toldCharacters = 2_000

/**
 * Makes the workspace of a conversation ready (wire 3.2) and answers where its agent works. A repository that cannot be
 * cloned is a `NotPrepared`: an agent in an empty directory would not notice. A setup script or hook that fails is trouble.
 * What was prepared before stays as it is, so that a start can be repeated.
 */
export async function prepare(inside: Inside, preparation: Preparation): Promise<string> {
  const { directory, repository, onStep } = preparation
  await onStep('PREPARING_REPOSITORY')
  const projectDir = repository === undefined ? directory : posix.join(directory, repository.name)
  await identify(inside, preparation)
  if (repository === undefined) await initialise(inside, projectDir, preparation)
  else await clone(inside, { ...preparation, repository, projectDir })
  await onStep('RUNNING_SETUP_SCRIPT')
  await setUp(inside, projectDir, preparation)
  await onStep('SETTING_UP_GIT_HOOKS')
  await hook(inside, projectDir, preparation)
  return projectDir
}

/** Another start in the same sandbox may hold the lock of the configuration. */
const retried = (command: string) =>
  `for i in 1 2 3 4 5 6 7 8; do ${command} && break; [ $i = 8 ] && exit 1; sleep 0.2; done`

async function identify(inside: Inside, preparation: Preparation): Promise<void> {
  const { name, email } = preparation.identity
  const set = (key: string, value: string | undefined) =>
    value === undefined ? '' : retried(`git config --global ${key} ${quote(value)}`)
  const commands = [set('user.name', name), set('user.email', email)].filter((command) => command !== '')
  if (commands.length === 0) return
  const ran = await step(inside, commands.join('\n'), preparation)
  if (ran.exitCode !== 0) preparation.onTrouble(`The git identity could not be set: ${told(ran)}`)
}

/** Git refuses directories of other users, and mounted ones often are. */
const trust = (directory: string) =>
  `git config --global --get-all safe.directory | grep -Fxq -- ${quote(directory)} || ${retried(
    `git config --global --add safe.directory ${quote(directory)}`,
  ).replace('exit 1', 'true')}`

async function initialise(inside: Inside, directory: string, preparation: Preparation): Promise<void> {
  const command = `mkdir -p -- ${quote(directory)} && cd -- ${quote(directory)} || exit 1
command -v git >/dev/null || exit 0
${trust(directory)}
[ -e .git ] || git init --quiet`
  const ran = await step(inside, command, preparation)
  if (ran.exitCode !== 0) throw new NotPrepared(`The workspace could not be made: ${told(ran)}`)
}

type Cloning = Preparation & { readonly repository: Repository; readonly projectDir: string }

async function clone(inside: Inside, cloning: Cloning): Promise<void> {
  const { login } = cloning.repository
  if (login === undefined) return await cloneAs(inside, cloning, undefined)
  // The token is in a file that only this user may read, for as long as the clone takes; it is in no command line, because
  // those are shown by the system and kept by the agent server.
  const made = await step(inside, 'umask 077 && mktemp -d', cloning)
  const directory = made.stdout.trim()
  if (made.exitCode !== 0 || !/^\/[\w./-]+$/.test(directory))
    throw new NotPrepared(`There is no place for temporary files: ${told(made)}`)
  try {
    const file = posix.join(directory, 'login')
    await upload(inside, file, loginFile(cloning.repository.url, login), cloning)
    await cloneAs(inside, cloning, file)
  } finally {
    // Also when the start was cancelled: then the command may still be waiting for the other side.
    const signal = AbortSignal.timeout(cloning.limits.stepMs)
    await run(inside, `rm -rf -- ${quote(directory)}`, { timeoutMs: cloning.limits.stepMs, signal }).catch(
      () => cloning.onTrouble(`The temporary directory ${directory} could not be removed`),
    )
  }
}

/** One line as the credential helper `store` of git reads it. */
function loginFile(url: string, login: { readonly user: string; readonly password: Secret }): Buffer {
  const { protocol, host } = new URL(url)
  const user = encodeURIComponent(login.user)
  return Buffer.from(`${protocol}//${user}:${encodeURIComponent(login.password.open())}@${host}\n`)
}

/** A clone is made beside its place and then moved, so that what is there is whole. */
async function cloneAs(inside: Inside, cloning: Cloning, loginPath: string | undefined): Promise<void> {
  const { projectDir, repository, branch, newBranch, isFullClone, limits, directory } = cloning
  const draft = `${projectDir}.slipway-clone`
  const helper = loginPath === undefined ? '' : `-c ${quote(`credential.helper=store --file=${loginPath}`)}`
  const command = `command -v git >/dev/null || { echo 'git is not installed in the sandbox' >&2; exit 1; }
${loginPath === undefined ? '' : `trap ${quote(`rm -rf -- ${quote(posix.dirname(loginPath))}`)} EXIT`}
mkdir -p -- ${quote(directory)} && cd -- ${quote(directory)} || exit 1
${trust(projectDir)}
[ -e ${quote(`${projectDir}/.git`)} ] && exit 0
rm -rf -- ${quote(draft)}
export GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=true SSH_ASKPASS=true GIT_ALLOW_PROTOCOL=https:http:ssh:git:file
export GIT_SSH_COMMAND='ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new'
git -c credential.helper= ${helper} clone --quiet ${isFullClone ? '' : '--depth 1'} ${
    branch === undefined ? '' : `--branch ${quote(branch)}`
  } -- ${quote(repository.url)} ${quote(draft)} </dev/null || { code=$?; rm -rf -- ${quote(draft)}; exit $code; }
${branch === undefined ? `git -C ${quote(draft)} checkout --quiet -b ${quote(newBranch)} || exit 1` : ''}
[ ! -e ${quote(projectDir)} ] || rmdir -- ${quote(projectDir)} || { rm -rf -- ${quote(draft)}; exit 1; }
mv -- ${quote(draft)} ${quote(projectDir)}`
  const ran = await run(inside, command, { timeoutMs: limits.cloneMs, signal: cloning.signal })
  if (ran.exitCode === 0) return
  const why = ran.exitCode === -1 ? `it took longer than ${limits.cloneMs / 1000} s. ` : ''
  throw new NotPrepared(`The repository ${repository.url} could not be cloned: ${why}${told(ran)}`)
}

/** The script is sourced in the root of the project (it may set nothing for the agent, but finds its own files there). */
async function setUp(inside: Inside, projectDir: string, preparation: Preparation): Promise<void> {
  const { limits, signal, onTrouble } = preparation
  const command = `cd -- ${quote(projectDir)} || exit 1
[ -f .openhands/setup.sh ] || exit 0
. ./.openhands/setup.sh </dev/null`
  const ran = await run(inside, command, { timeoutMs: limits.setupMs, signal })
  if (ran.exitCode === 0) return
  const why =
    ran.exitCode === -1
      ? `took longer than ${limits.setupMs / 1000} s`
      : `failed with exit code ${ran.exitCode}`
  onTrouble(`.openhands/setup.sh ${why}: ${told(ran)}`)
}

const hookMark = '# made from .openhands/pre-commit.sh'

/**
 * Installs the project's script as the hook of commits; a hook that was there before runs first. The script is not made executable,
 * because that would be a change of the project.
 */
async function hook(inside: Inside, projectDir: string, preparation: Preparation): Promise<void> {
  const script = `#!/bin/sh
${hookMark}
own="$(dirname -- "$0")/pre-commit.local"
if [ -x "$own" ]; then "$own" "$@" || exit $?; fi
if [ -x .openhands/pre-commit.sh ]; then exec ./.openhands/pre-commit.sh "$@"; fi
exec bash .openhands/pre-commit.sh "$@"
`
  const command = `cd -- ${quote(projectDir)} || exit 1
[ -f .openhands/pre-commit.sh ] || exit 0
hooks=$(git rev-parse --git-path hooks) && mkdir -p -- "$hooks" || exit 1
if [ -e "$hooks/pre-commit" ] && ! grep -Fq ${quote(hookMark)} "$hooks/pre-commit"; then
  mv -- "$hooks/pre-commit" "$hooks/pre-commit.local" || exit 1
fi
printf '%s' ${quote(script)} > "$hooks/pre-commit" && chmod +x "$hooks/pre-commit"`
  const ran = await step(inside, command, preparation)
  if (ran.exitCode !== 0) preparation.onTrouble(`The git hook could not be installed: ${told(ran)}`)
}

async function step(inside: Inside, command: string, { limits, signal }: Preparation): Promise<Ran> {
  return await run(inside, command, { timeoutMs: limits.stepMs, signal })
}

/** The end of what a command printed, without what only a terminal shows. */
function told({ stdout, stderr }: Ran): string {
  const text = `${stdout}\n${stderr}`
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is removed
    .replace(/\u001b\[[0-9;?]*[A-Za-z]|[\u0000-\u0008\u000b-\u001f\u007f]/g, '')
    .trim()
  return endOf(text, toldCharacters)
}
