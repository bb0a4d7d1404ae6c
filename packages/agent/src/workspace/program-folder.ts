import { homedir } from 'node:os'
import { basename, dirname, isAbsolute, join } from 'node:path'
import { errorCode, isWithin } from '@slipway/shared/fs'
import { lstat, mkdir, mkdtemp, realpath, rm, toolUser } from '@slipway/shared/tool-files'

/** Names the workspace to programs that start elsewhere. */
export const workspaceVariable = 'SLIPWAY_WORKSPACE'

interface ProgramPlace {
  /** The variables of tools: `XDG_CACHE_HOME`, `HOME` and `SLIPWAY_SERVER` count. */
  readonly env: Readonly<Record<string, string>>
  /** The workspace. */
  readonly directory?: string | undefined
}

/**
 * An empty folder (0700) to start a program of the user in. In the workspace it would pick up what the author
 * of a repository has put there: `npx` a `node_modules/.bin` and an `.npmrc`, Python a module of the name.
 * Programs also look into the folders above: the folder is in `~/.cache/slipway/programs`, where no one but
 * the user and root can put files above it, or else it is `/`. Never in the data directory, which may be in
 * a cloned repository, nor in a shared directory of temporary files.
 */
export class ProgramFolder implements AsyncDisposable {
  readonly path: string
  /** Made for the program, so that it may write there; otherwise `/`. */
  readonly isOwn: boolean

  private constructor(path: string, isOwn: boolean) {
    this.path = path
    this.isOwn = isOwn
  }

  static async create(place: ProgramPlace): Promise<ProgramFolder> {
    const parent = await makeParent(place).catch(() => undefined)
    return parent === undefined
      ? new ProgramFolder('/', false)
      : new ProgramFolder(await mkdtemp(join(parent, 'run-')), true)
  }

  /** Removes what an earlier process of the server left; no program of the server may run. */
  static async removeLeftovers(env: ProgramPlace['env']): Promise<void> {
    const [start, ...parts] = parentOf(env)
    if (isAbsolute(start))
      await rm(join(start, ...parts), { recursive: true, force: true }).catch(() => undefined)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.isOwn) await rm(this.path, { recursive: true, force: true }).catch(() => undefined)
  }
}

/** A folder that must exist, and the parts below it. Each server has its own folder. */
function parentOf(env: ProgramPlace['env']): [string, ...string[]] {
  const { XDG_CACHE_HOME: cache = '', HOME: home = homedir(), SLIPWAY_SERVER: server = 'unmarked' } = env
  const base = isAbsolute(cache) ? cache : join(home, '.cache')
  return [dirname(base), basename(base), 'slipway', 'programs', server]
}

/** Undefined where another user, or the author of a project above, could put files. */
async function makeParent({ env, directory }: ProgramPlace): Promise<string | undefined> {
  const [start, ...parts] = parentOf(env)
  const home = await realpath(env.HOME ?? homedir()).catch(() => undefined)
  if (!isAbsolute(start) || !(await isSafe(await realpath(start), home))) return undefined
  let path = start
  for (const part of parts) {
    path = join(path, part)
    await mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
      if (errorCode(error) !== 'EEXIST') throw error
    })
  }
  const real = await realpath(path)
  const isOfWorkspace = directory !== undefined && isWithin(await realpath(directory), real)
  return !isOfWorkspace && (await isSafe(real, home)) ? real : undefined
}

const projectFiles = ['.git', '.npmrc', 'node_modules', 'package.json']

/** Whether a folder and all above it are only the user's and root's to write, and none is a project's. */
async function isSafe(path: string, home: string | undefined): Promise<boolean> {
  const { uid, gid, mode } = await lstat(path)
  const user = toolUser() ?? { uid: process.geteuid?.(), gid: process.getegid?.() }
  // Windows has no such modes, and the folders of users are their own.
  if (user.uid !== undefined) {
    // Also with the sticky bit: another user could add a file.
    const isWritable = (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && gid !== user.gid)
    if ((uid !== 0 && uid !== user.uid) || isWritable) return false
  }
  const parent = dirname(path)
  // What is at the top is the system's, and what is in the home directory the user's.
  if (path !== home && path !== parent)
    for (const name of projectFiles) if (await exists(join(path, name))) return false
  return path === parent || (await isSafe(parent, home))
}

async function exists(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    (error: unknown) => errorCode(error) !== 'ENOENT',
  )
}
