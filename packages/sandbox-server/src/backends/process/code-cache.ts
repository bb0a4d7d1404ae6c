import { spawn } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { chmod, chown, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Log } from '@slipway/protocol'
import { identityArguments, insidePlaces, jailArguments } from './bubblewrap/arguments.ts'
import { type Started, spawnWithLists, started } from './bubblewrap/spawn-with-fds.ts'
import { ignoring } from './host/files.ts'
import { hostEnvironment } from './host/run-program.ts'
import { type Jail, jailCommand } from './host-capabilities.ts'
import { hostUserOf } from './sandbox-paths.ts'

export interface CodeCacheOptions {
  /** Of this cache alone, absolute; made when it is not there. */
  readonly directory: string
  readonly ledgerId: string
  readonly agentCommand: readonly string[]
  /** What the program is made of: when it changes, everything is compiled anew. */
  readonly readable: readonly string[]
  readonly hidden: readonly string[]
  readonly log: Log
}

const limitMs = 60_000
/** Ends the program gracefully when its own input ends, so also when the server dies: that is when Node writes what it compiled. */
const script = `
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
  #making: Promise<void> | undefined

  constructor(options: CodeCacheOptions) {
    this.#options = options
  }

  /** A folder of the host to be shown to sandboxes; undefined while there is none. */
  get folder(): string | undefined {
    return this.#folder
  }

  /** Finds or makes it, once; resolves when that is over. Never rejects: without it everything is only slower. */
  make(jail: Jail | undefined): Promise<void> {
    this.#making ??= this.#make(jail).catch((error: unknown) =>
      this.#options.log('warn', 'the agent server is not compiled ahead: sandboxes start slower', {
        error: String(error),
      }),
    )
    return this.#making
  }

  async #make(jail: Jail | undefined): Promise<void> {
    const { directory, agentCommand, readable } = this.#options
    const key = hash('sha256', JSON.stringify([agentCommand, jail !== undefined, await stampOf(readable)]))
    const folder = join(directory, key.slice(0, 32))
    const names = (await ignoring(['ENOENT'], readdir(directory))) ?? []
    for (const name of names.filter((each) => each !== basename(folder)))
      await rm(join(directory, name), { recursive: true, force: true })
    if (!names.includes(basename(folder))) await this.#fill(jail, folder)
    this.#folder = folder
  }

  async #fill(jail: Jail | undefined, folder: string): Promise<void> {
    const { directory, ledgerId } = this.#options
    await mkdir(directory, { recursive: true, mode: 0o700 })
    const draft = await mkdtemp(join(directory, '.draft-'))
    try {
      const [code, data] = [join(draft, 'code'), join(draft, 'data')]
      for (const each of [code, data]) await mkdir(each, { mode: 0o755 })
      if (jail?.setpriv !== undefined) {
        // No sandbox has this user: ids have no slash.
        const user = hostUserOf(ledgerId, '/code')
        for (const each of [code, data]) await chown(each, user, user)
      }
      await (jail === undefined ? this.#runPlain(code, data) : this.#runJailed(jail, draft, code, data))
      await close(code)
      await rename(code, folder)
    } finally {
      await rm(draft, { recursive: true, force: true })
    }
  }

  async #runPlain(code: string, data: string): Promise<void> {
    const [program = '', ...args] = this.#command(data)
    const env = environmentOf(code, data, data)
    await begun(started(spawn(program, args, { cwd: data, env, stdio: ['pipe', 'pipe', 'ignore'] })))
  }

  async #runJailed(jail: Jail, draft: string, code: string, data: string): Promise<void> {
    const { ledgerId, readable, hidden } = this.#options
    const user = jail.setpriv === undefined ? null : hostUserOf(ledgerId, '/code')
    const walls = await jailArguments({
      user,
      network: 'none',
      readable,
      hidden: [this.#options.directory, ...hidden],
      temporaryBytes: 64 << 20,
      shown: [],
      writable: [
        [data, insidePlaces.data],
        [code, insidePlaces.code],
      ],
    })
    const env = environmentOf(insidePlaces.code, insidePlaces.data, '/tmp')
    const lists = [walls, identityArguments(env, insidePlaces.data, jail.canForbidUsers)]
    const command = jailCommand(jail, user, this.#command(insidePlaces.data))
    await begun(await spawnWithLists(command, lists, draft, ['pipe', 'pipe', 'ignore']))
  }

  #command(data: string): string[] {
    const where = ['--host', '127.0.0.1', '--port', '0', '--data', data]
    return ['/bin/sh', '-c', script, 'slipway-code', ...this.#options.agentCommand, ...where]
  }
}

/** With a key that nobody has: it serves nobody. */
function environmentOf(code: string, home: string, temporary: string): Record<string, string> {
  const places = { HOME: home, TMPDIR: temporary, NODE_COMPILE_CACHE: code }
  return { ...hostEnvironment, ...places, SLIPWAY_SESSION_API_KEY: randomBytes(32).toString('hex') }
}

/** Lets it come to its first line, which says that it answers, and end. The server does not live on for it. */
async function begun({ child, ended }: Started): Promise<void> {
  const { stdin, stdout } = child
  if (stdin === null || stdout === null) throw new Error('a program without pipes')
  const timer = setTimeout(() => child.kill('SIGKILL'), limitMs)
  for (const each of [child, timer, stdin, stdout]) {
    if ('unref' in each && typeof each.unref === 'function') each.unref()
  }
  stdin.on('error', () => {})
  let isBegun = false
  stdout.once('data', () => {
    isBegun = true
    stdin.end()
  })
  const code = await ended.finally(() => clearTimeout(timer))
  stdin.end()
  if (!isBegun || code !== 0) throw new Error(`the agent server ended with ${code}`)
}

/** Everybody may read it, and nobody but the server may change it. */
async function close(folder: string): Promise<void> {
  const isRoot = process.getuid?.() === 0
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await close(path)
    else if (!entry.isFile()) throw new Error(`${path} is no file`)
    else await take(path, 0o644)
  }
  await take(folder, 0o755)

  async function take(path: string, mode: number): Promise<void> {
    if (isRoot) await chown(path, 0, 0)
    await chmod(path, mode)
  }
}

/** Changes with every file that is replaced: of folders the times of all in them, of `node_modules` its own. */
async function stampOf(paths: readonly string[]): Promise<string[]> {
  const stamps: string[] = []
  for (const path of paths) {
    const { mtimeMs } = await stat(path)
    stamps.push(`${path} ${mtimeMs}`)
    if (basename(path) === 'node_modules') continue
    const entries = (await ignoring(['ENOTDIR'], readdir(path, { withFileTypes: true }))) ?? []
    const folders = entries.filter((entry) => entry.isDirectory()).map((entry) => join(path, entry.name))
    stamps.push(...(await stampOf(folders.toSorted())))
  }
  return stamps
}
