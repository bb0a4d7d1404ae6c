import { lstat, readdir, realpath } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { errorCode } from '../fs/error-code.ts'
import { exists } from '../fs/exists.ts'
import { firstChars } from '../text/index.ts'
import { gitCommand } from './git-command.ts'

const timeoutMs = 30_000
const maxListBytes = 16 * 1024 * 1024
/** Written by servers themselves, and harmless in a repository. */
const ignoreFile = '.gitignore'

/**
 * Rejects with a plain Error when git tracks a data directory or a file in it. Whoever committed it chose
 * the settings, consents, keys and running commands that a server would continue with: a clone is not a data
 * directory. Nothing that the repository configures runs. Costs a git process where there is a repository.
 */
export async function assertUntracked(directory: string): Promise<void> {
  const path = resolve(directory)
  const names = await readdir(path).catch(() => [])
  if (names.every((name) => name === ignoreFile)) return
  const target = await realpath(path)
  const link = (await lstat(path)).isSymbolicLink()
    ? [join(await realpath(dirname(path)), basename(path))]
    : []
  for (const place of [target, ...link]) {
    const tracked = await findTracked(place)
    if (tracked === undefined) continue
    throw new Error(
      `the data directory ${path} belongs to the git repository ${tracked.root}, which tracks ${tracked.name}: ` +
        'a server would work with the keys, settings and unfinished runs of whoever committed it. ' +
        'Name another directory with --data. If these files are your own, take them out of the repository ' +
        `with "git rm -r --cached ${path}", and renew keys that were committed.`,
    )
  }
}

interface Tracked {
  readonly root: string
  readonly name: string
}

/** The first tracked file at a path or below it. */
async function findTracked(path: string): Promise<Tracked | undefined> {
  for (let root = path; ; root = dirname(root)) {
    if (await exists(join(root, '.git'))) {
      const names = await listTracked(root, relative(root, path))
      const own = join(relative(root, path), ignoreFile)
      const name = names?.find((one) => one !== own)
      if (name !== undefined) return { root, name }
      if (names !== undefined) return undefined
    }
    if (root === dirname(root)) return undefined
  }
}

/** Undefined where `.git` is no repository. The repository is named to git, which looks for none itself. */
async function listTracked(root: string, path: string): Promise<readonly string[] | undefined> {
  const { execFile } = await import('node:child_process')
  // Names of another case are the same files on some systems.
  const paths = path === '' ? [] : ['--', `:(top,literal,icase)${path}`]
  const { command, args, env } = gitCommand(
    ['--git-dir=.git', '--work-tree=.', 'ls-files', '-z', '--cached', ...paths],
    { env: { GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null' } },
  )
  return await new Promise((fulfil, reject) => {
    const own = { PATH: process.env.PATH, ...env }
    const options = { cwd: root, env: own, timeout: timeoutMs, maxBuffer: maxListBytes }
    execFile(command, args, options, (error, stdout, stderr) => {
      if (error === null) return fulfil(stdout.split('\0').filter((name) => name !== ''))
      if (/^fatal: not a git repository/m.test(stderr)) return fulfil(undefined)
      const reason = errorCode(error) === 'ENOENT' ? 'git is not installed' : stderr.trim() || error.message
      reject(
        new Error(
          `whether the repository ${root} tracks the data directory is unknown: ${firstChars(reason, 500)}. ` +
            'Install git, or name a directory outside of the repository with --data.',
        ),
      )
    })
  })
}
