import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { type GitCommand, gitCommand } from '../process/git-command.ts'
import { lstat, makeTemporaryFolder, realpath, rm, symlink, writeFile } from '../tool-files/index.ts'

/** Runs git in one directory. */
type RunGitCommand = (command: GitCommand) => Promise<{
  readonly exitCode: number | null
  readonly stdout: Buffer
  readonly isTruncated?: boolean
}>

/** What a repository has in common with its worktrees, without its configuration and its hooks. */
const sharedParts = [
  'HEAD',
  'objects',
  'refs',
  'packed-refs',
  'reftable',
  'info',
  'logs',
  'worktrees',
].concat('shallow', 'lfs')

/**
 * Settings that say how files, references and addresses are stored; no program and no other file runs by one.
 */
const harmlessSettings = [
  /^core\.(?:repositoryformatversion|filemode|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf)$/,
  /^core\.(?:sparsecheckout|sparsecheckoutcone|protecthfs|protectntfs|checkstat|trustctime)$/,
  /^core\.(?:excludesfile|attributesfile|logallrefupdates|sharedrepository|bigfilethreshold)$/,
  // An unknown extension must stay one, so that git refuses a format that it does not understand.
  /^extensions\.(?!worktreeconfig$)/,
  /^index\.(?:sparse|version)$/,
  /^(?:user|author|committer)\.(?:name|email)$/,
  /^i18n\./s,
  /^branch\..+\.(?:remote|merge)$/s,
  /^remote\..+\.(?:url|fetch)$/s,
  /^lfs\.repositoryformatversion$/,
]

/** Why a repository cannot be used. */
export class RepositoryViewError extends Error {
  override readonly name = 'RepositoryViewError'
}

/**
 * A repository as git sees it with a configuration that cannot name a program: a private directory links to
 * its objects and references, and has a copy of its harmless settings. The copy is made once, so nothing that
 * somebody writes into the repository meanwhile counts.
 */
export class RepositoryView implements AsyncDisposable {
  /** Real path of the working tree. */
  readonly root: string
  /** Variables for all calls in the working tree. */
  readonly env: Readonly<Record<string, string>>
  /** Private, and removed with the view. */
  readonly directory: string

  private constructor(root: string, gitDirectory: string, directory: string) {
    this.root = root
    this.directory = directory
    this.env = { GIT_DIR: gitDirectory, GIT_COMMON_DIR: directory, GIT_WORK_TREE: root }
  }

  /**
   * Undefined where the directory in which `run` runs is in no working tree. Rejects with a
   * `RepositoryViewError` where its configuration cannot be read.
   */
  static async open(run: RunGitCommand): Promise<RepositoryView | undefined> {
    const places = await findPlaces(run)
    if (places === undefined) return undefined
    const { root, gitDirectory, commonDirectory } = places
    const config = await run(gitCommand(['config', '--list', '-z', '--show-scope']))
    if (config.exitCode !== 0) throw new RepositoryViewError('git cannot read the configuration')
    if (config.isTruncated === true) throw new RepositoryViewError('The configuration is too long')
    const directory = await makeTemporaryFolder('git')
    const view = new RepositoryView(root, gitDirectory, directory)
    try {
      await writeFile(join(directory, 'config'), harmlessConfig(config.stdout.toString()))
      for (const name of sharedParts) {
        const target = join(commonDirectory, name)
        if (await isThere(target)) await symlink(target, join(directory, name))
      }
      return view
    } catch (error) {
      await view[Symbol.asyncDispose]()
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true })
  }
}

interface Places {
  readonly root: string
  readonly gitDirectory: string
  readonly commonDirectory: string
}

async function findPlaces(run: RunGitCommand): Promise<Places | undefined> {
  // Paths may contain line breaks; an unknown option is printed as it is.
  const mark = `--${randomUUID()}`
  const options = ['--path-format=absolute', '--show-toplevel', mark, '--git-dir', mark, '--git-common-dir']
  const found = await run(gitCommand(['rev-parse', ...options]))
  if (found.exitCode !== 0) return undefined
  const [root, gitDirectory, commonDirectory] = outputText(found.stdout).split(`\n${mark}\n`)
  // Before 2.31 the option is unknown, and so are the variables with the settings of each call.
  if (root?.startsWith('--path-format')) throw new RepositoryViewError('git 2.31 or newer is needed')
  if (root === undefined || gitDirectory === undefined || commonDirectory === undefined) return undefined
  // `core.worktree` may name any directory; only one that has this repository in it is meant.
  const own = await run(gitCommand(['rev-parse', '--resolve-git-dir', join(root, '.git')]))
  if (own.exitCode !== 0) return undefined
  const real = await Promise.all([realpath(outputText(own.stdout)), realpath(gitDirectory)])
  return real[0] === real[1] ? { root, gitDirectory, commonDirectory } : undefined
}

function outputText(output: Buffer): string {
  return output.toString().replace(/\n$/, '')
}

/** `list`: pairs of a scope and a setting, its name and its value divided by a line feed. */
function harmlessConfig(list: string): string {
  const fields = list.split('\0')
  const lines: string[] = []
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [scope, setting = ''] = fields.slice(at, at + 2)
    const end = setting.indexOf('\n')
    const name = end < 0 ? setting : setting.slice(0, end)
    const isOfRepository = scope === 'local' || scope === 'worktree'
    if (!isOfRepository || !harmlessSettings.some((pattern) => pattern.test(name))) continue
    lines.push(settingText(name, end < 0 ? undefined : setting.slice(end + 1)))
  }
  return lines.join('')
}

function settingText(name: string, value: string | undefined): string {
  const [first, last] = [name.indexOf('.'), name.lastIndexOf('.')]
  const section = first === last ? '' : ` "${name.slice(first + 1, last).replace(/["\\]/g, '\\$&')}"`
  const text = value === undefined ? '' : ` = "${value.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n')}"`
  return `[${name.slice(0, first)}${section}]\n\t${name.slice(last + 1)}${text}\n`
}

async function isThere(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    () => false,
  )
}
