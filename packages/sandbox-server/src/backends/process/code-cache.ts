import { spawn } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import { makeDirectory } from '@slipway/shared/fs'
import { insidePaths, type Jail, jailCommand } from './bubblewrap/arguments.ts'
import { type SpawnedProgram, spawnWithFds, trackExit } from './bubblewrap/spawn-with-fds.ts'
import { ignoreErrors } from './host/files.ts'
import { hostEnvironment } from './host/run-program.ts'
import type { PreparationDeps } from './prepare-sandbox.ts'
import { hostUserId } from './sandbox-paths.ts'

/** `directory` is of this cache alone. A change of `readable` compiles everything again. */
interface CodeCacheOptions
  extends Pick<PreparationDeps, 'directory' | 'agentCommand' | 'readable' | 'inaccessible'> {
  readonly ledgerId: string
  readonly log: LogFunction
}

const compileTimeoutMs = 60_000
const compileScript = readFileSync(new URL('compile.sh', import.meta.url), 'utf8')

/** The compiled code of our agent server. Read-only: what one sandbox could write would run in all. */
export class CodeCache {
  readonly #options: CodeCacheOptions
  /** A folder of the host for sandboxes to read; undefined while there is none. */
  folder: string | undefined
  #preparing: Promise<void> | undefined
  readonly #looked = Promise.withResolvers<void>()

  constructor(options: CodeCacheOptions) {
    this.#options = options
  }

  /** Finds or compiles it, once. Never rejects: without it sandboxes only start slower. */
  make(jail: Jail | undefined): Promise<void> {
    this.#preparing ??= this.#findOrCompile(jail)
      .catch((error: unknown) =>
        this.#options.log('warn', 'the agent server is not compiled ahead: sandboxes start slower', {
          error: String(error),
        }),
      )
      .finally(() => this.#looked.resolve())
    return this.#preparing
  }

  /** Finds it, or begins to compile it, which takes as long as a start of the agent server. */
  async find(jail: Jail | undefined): Promise<void> {
    void this.make(jail)
    await this.#looked.promise
  }

  async #findOrCompile(jail: Jail | undefined): Promise<void> {
    const { directory, agentCommand, readable } = this.#options
    const source = [agentCommand, jail !== undefined, await modificationStamps(readable)]
    const folder = join(directory, hash('sha256', JSON.stringify(source)).slice(0, 32))
    const names = (await ignoreErrors(['ENOENT'], readdir(directory))) ?? []
    for (const name of names.filter((each) => each !== basename(folder)))
      await rm(join(directory, name), { recursive: true, force: true })
    if (!names.includes(basename(folder))) {
      this.#looked.resolve()
      await this.#compile(jail, folder)
    }
    this.folder = folder
  }

  async #compile(jail: Jail | undefined, folder: string): Promise<void> {
    const { directory, ledgerId } = this.#options
    await makeDirectory(directory, 0o700)
    const draft = await mkdtemp(join(directory, '.draft-'))
    try {
      const [code, data] = [join(draft, 'code'), join(draft, 'data')]
      for (const each of [code, data]) await mkdir(each, { mode: 0o755 })
      if (jail?.setpriv !== undefined) {
        // No sandbox has this user: ids have no slash.
        const user = hostUserId(ledgerId, '/code')
        for (const each of [code, data]) await chown(each, user, user)
      }
      await (jail === undefined ? this.#runPlain(code, data) : this.#runJailed(jail, draft, code, data))
      await makeReadOnly(code)
      await rename(code, folder)
    } finally {
      await rm(draft, { recursive: true, force: true })
    }
  }

  async #runPlain(code: string, data: string): Promise<void> {
    const [program = '', ...args] = this.#command(data)
    const env = compileEnvironment(code, data, data)
    const child = spawn(program, args, { cwd: data, env, stdio: ['pipe', 'pipe', 'ignore'] })
    await runUntilReady(trackExit(child))
  }

  async #runJailed(jail: Jail, draft: string, code: string, data: string): Promise<void> {
    const { directory, ledgerId, readable, inaccessible } = this.#options
    const options = {
      user: jail.setpriv === undefined ? null : hostUserId(ledgerId, '/code'),
      network: 'none',
      env: compileEnvironment(insidePaths.code, insidePaths.data, '/tmp'),
      workingDir: insidePaths.data,
      readable,
      inaccessible: [directory, ...inaccessible],
      temporaryBytes: 64 << 20,
      writableBinds: [
        [data, insidePaths.data],
        [code, insidePaths.code],
      ],
    } as const
    const jailed = await jailCommand(jail, options, this.#command(insidePaths.data))
    await runUntilReady(await spawnWithFds(jailed, draft, ['pipe', 'pipe', 'ignore']))
  }

  #command(data: string): string[] {
    const where = ['--host', '127.0.0.1', '--port', '0', '--data', data]
    return ['/bin/sh', '-c', compileScript, 'slipway-code', ...this.#options.agentCommand, ...where]
  }
}

/** With a random session key: it has no callers. */
function compileEnvironment(code: string, homeDirectory: string, temporary: string): Record<string, string> {
  const directories = { HOME: homeDirectory, TMPDIR: temporary, NODE_COMPILE_CACHE: code }
  return { ...hostEnvironment, ...directories, SLIPWAY_SESSION_API_KEY: randomBytes(32).toString('hex') }
}

/** Ends a program after its first line, which says that it is ready. Does not keep the server alive. */
async function runUntilReady({ child, ended }: SpawnedProgram): Promise<void> {
  const { stdin, stdout } = child
  if (stdin === null || stdout === null) throw new Error('a program without pipes')
  const timer = setTimeout(() => child.kill('SIGKILL'), compileTimeoutMs)
  for (const each of [child, timer, stdin, stdout]) {
    if ('unref' in each && typeof each.unref === 'function') each.unref()
  }
  stdin.on('error', () => {})
  let isReady = false
  stdout.once('data', () => {
    isReady = true
    stdin.end()
  })
  const code = await ended.finally(() => clearTimeout(timer))
  stdin.end()
  if (!isReady || code !== 0) throw new Error(`the agent server ended with ${code}`)
}

/** Readable for all users, writable for the server only. */
async function makeReadOnly(folder: string): Promise<void> {
  const isRoot = process.getuid?.() === 0
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await makeReadOnly(path)
    else if (!entry.isFile()) throw new Error(`${path} is no file`)
    else await setOwnerAndMode(path, 0o644)
  }
  await setOwnerAndMode(folder, 0o755)

  async function setOwnerAndMode(path: string, mode: number): Promise<void> {
    if (isRoot) await chown(path, 0, 0)
    await chmod(path, mode)
  }
}

/** Modification times of files and, recursively, of folders; of `node_modules` only its own. */
async function modificationStamps(paths: readonly string[]): Promise<string[]> {
  const stamps: string[] = []
  for (const path of paths) {
    const { mtimeMs } = await stat(path)
    stamps.push(`${path} ${mtimeMs}`)
    if (basename(path) === 'node_modules') continue
    const entries = (await ignoreErrors(['ENOTDIR'], readdir(path, { withFileTypes: true }))) ?? []
    const folders = entries.filter((entry) => entry.isDirectory()).map((entry) => join(path, entry.name))
    stamps.push(...(await modificationStamps(folders.toSorted())))
  }
  return stamps
}
