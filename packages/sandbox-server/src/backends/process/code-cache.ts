import { spawn } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { chmod, chown, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import { identityArguments, insidePaths, jailArguments } from './bubblewrap/arguments.ts'
import { type SpawnedProgram, spawnWithFds, trackExit } from './bubblewrap/spawn-with-fds.ts'
import { ignoreErrors } from './host/files.ts'
import { hostEnvironment } from './host/run-program.ts'
import { type Jail, jailCommand } from './host-capabilities.ts'
import { hostUserId } from './sandbox-paths.ts'

export interface CodeCacheOptions {
  /** Of this cache alone, absolute; made when it is not there. */
  readonly directory: string
  readonly ledgerId: string
  readonly agentCommand: readonly string[]
  /** What the program is made of: when it changes, everything is compiled anew. */
  readonly readable: readonly string[]
  readonly inaccessible: readonly string[]
  readonly log: LogFunction
}

const compileTimeoutMs = 60_000
/** Ends the program gracefully when its own input ends, so also when the server dies: that is when Node writes what it compiled. */
const compileScript = `
exec 3<&0
"$@" 3<&- &
program=$!
(exec 1>&-; read -r _ <&3; kill -TERM $program) &
reader=$!
wait $program
code=$?
kill $reader
exit $code
`

/**
 * The compiled code of our own agent server, which makes its start about twice as fast. It is made by an agent server that serves
 * nobody, behind the same walls as sandboxes, and is read-only for them: what one of them could write there would run in all others.
 */
export class CodeCache {
  readonly #options: CodeCacheOptions
  #folder: string | undefined
  #preparing: Promise<void> | undefined

  constructor(options: CodeCacheOptions) {
    this.#options = options
  }

  /** A folder of the host to be shown to sandboxes; undefined while there is none. */
  get folder(): string | undefined {
    return this.#folder
  }

  /** Finds or makes it, once; resolves when that is over. Never rejects: without it everything is only slower. */
  make(jail: Jail | undefined): Promise<void> {
    this.#preparing ??= this.#findOrCompile(jail).catch((error: unknown) =>
      this.#options.log('warn', 'the agent server is not compiled ahead: sandboxes start slower', {
        error: String(error),
      }),
    )
    return this.#preparing
  }

  async #findOrCompile(jail: Jail | undefined): Promise<void> {
    const { directory, agentCommand, readable } = this.#options
    const key = hash(
      'sha256',
      JSON.stringify([agentCommand, jail !== undefined, await modificationStamps(readable)]),
    )
    const folder = join(directory, key.slice(0, 32))
    const names = (await ignoreErrors(['ENOENT'], readdir(directory))) ?? []
    for (const name of names.filter((each) => each !== basename(folder)))
      await rm(join(directory, name), { recursive: true, force: true })
    if (!names.includes(basename(folder))) await this.#compile(jail, folder)
    this.#folder = folder
  }

  async #compile(jail: Jail | undefined, folder: string): Promise<void> {
    const { directory, ledgerId } = this.#options
    await mkdir(directory, { recursive: true, mode: 0o700 })
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
    await runUntilReady(
      trackExit(spawn(program, args, { cwd: data, env, stdio: ['pipe', 'pipe', 'ignore'] })),
    )
  }

  async #runJailed(jail: Jail, draft: string, code: string, data: string): Promise<void> {
    const { ledgerId, readable, inaccessible } = this.#options
    const user = jail.setpriv === undefined ? null : hostUserId(ledgerId, '/code')
    const outerArguments = await jailArguments({
      user,
      network: 'none',
      readable,
      inaccessible: [this.#options.directory, ...inaccessible],
      temporaryBytes: 64 << 20,
      readOnlyBinds: [],
      writableBinds: [
        [data, insidePaths.data],
        [code, insidePaths.code],
      ],
    })
    const env = compileEnvironment(insidePaths.code, insidePaths.data, '/tmp')
    const lists = [outerArguments, identityArguments(env, insidePaths.data, jail.canForbidUsers)]
    const command = jailCommand(jail, user, this.#command(insidePaths.data))
    await runUntilReady(await spawnWithFds(command, lists, draft, ['pipe', 'pipe', 'ignore']))
  }

  #command(data: string): string[] {
    const where = ['--host', '127.0.0.1', '--port', '0', '--data', data]
    return ['/bin/sh', '-c', compileScript, 'slipway-code', ...this.#options.agentCommand, ...where]
  }
}

/** With a key that nobody has: it serves nobody. */
function compileEnvironment(code: string, homeDirectory: string, temporary: string): Record<string, string> {
  const directories = { HOME: homeDirectory, TMPDIR: temporary, NODE_COMPILE_CACHE: code }
  return { ...hostEnvironment, ...directories, SLIPWAY_SESSION_API_KEY: randomBytes(32).toString('hex') }
}

/** Lets it come to its first line, which says that it answers, and end. The server does not live on for it. */
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

/** Everybody may read it, and nobody but the server may change it. */
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

/** Changes with every file that is replaced: of folders the times of all in them, of `node_modules` its own. */
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
