import { type ChildProcessByStdio, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { findProcesses } from '@slipway/examples/find-processes'
import { packCommand, registryUnreachable } from '../support/npm-packages.ts'

/**
 * The directory of the Node that the machine has, which may be older than ours; ours when it has
 * none.
 */
export function findMachineNode(): { readonly directory: string; readonly isOld: boolean } {
  const directory = (process.env.PATH ?? '')
    .split(delimiter)
    .filter((path) => !path.includes('node_modules') && !path.includes('node-gyp-bin'))
    .find((path) => existsSync(join(path, 'node')) && existsSync(join(path, 'npm')))
  if (directory === undefined) return { directory: dirname(process.execPath), isOld: false }
  const { stdout } = spawnSync(join(directory, 'node'), ['--version'], { encoding: 'utf8' })
  const [major = 0, minor = 0] = stdout.slice(1).split('.').map(Number)
  return { directory, isOld: major < 24 || (major === 24 && minor < 12) }
}

export interface CommandOptions {
  /** The exit code that the command has to have; default 0. */
  readonly code?: number
  /** Standard input. */
  readonly input?: string
  readonly env?: Readonly<Record<string, string>>
  /** Default: the folder of the user's project. */
  readonly cwd?: string
  /** Another user of the machine, where the test is root. */
  readonly uid?: number | undefined
}

export interface CommandOutput {
  readonly stdout: string
  readonly stderr: string
}

/** A server of the installed command that runs in the background. */
export interface BackgroundServer {
  readonly child: ChildProcessByStdio<null, Readable, Readable>
  /** The first line that it printed, as JSON. */
  readonly ready: Readonly<Record<string, unknown>>
  /** Ends it as Ctrl-C does; returns the exit code. */
  stop(): Promise<number | null>
}

/**
 * A user with an empty home directory, an empty prefix of npm, a folder `project`, and the Node of
 * the machine. All processes that the user starts have `directory` in their environment.
 */
export class InstalledCommand implements AsyncDisposable {
  readonly directory: string
  readonly home: string
  readonly prefix: string
  readonly project: string
  readonly #nodeDirectory: string
  readonly #npmSettings: Readonly<Record<string, string>>
  readonly #servers = new Set<BackgroundServer['child']>()
  #package = ''
  /** Commands that were run to their end. */
  commandCount = 0

  private constructor(directory: string, nodeDirectory: string) {
    this.directory = directory
    this.home = join(directory, 'home')
    this.prefix = join(directory, 'prefix')
    this.project = join(this.home, 'project')
    this.#nodeDirectory = nodeDirectory
    // The package cache, the proxy and the registry of the machine are not part of the user's home.
    const get = (name: string) =>
      spawnSync('npm', ['config', 'get', name], { encoding: 'utf8', cwd: tmpdir() }).stdout.trim()
    this.#npmSettings = {
      npm_config_cache: get('cache'),
      npm_config_userconfig: get('userconfig'),
      npm_config_registry: get('registry'),
      npm_config_prefer_offline: 'true',
      npm_config_update_notifier: 'false',
      npm_config_fetch_retries: '1',
    }
  }

  /** `name` begins the name of the directory. */
  static async open(nodeDirectory: string, name = 'd-'): Promise<InstalledCommand> {
    const directory = await realpath(await mkdtemp(join(tmpdir(), name)))
    const user = new InstalledCommand(directory, nodeDirectory)
    for (const path of [user.prefix, user.project, join(directory, 'tmp')])
      await mkdir(path, { recursive: true })
    return user
  }

  /**
   * Packs the working tree and installs it globally; returns why not when npm reaches no registry.
   */
  async install(): Promise<string | undefined> {
    this.#package = await packCommand(join(this.directory, 'dist'))
    const args = ['install', '--global', ...npmFlags, this.#package]
    const { code, stdout, stderr } = await this.#run('npm', args)
    if (code === 0) return undefined
    const [reason] = registryUnreachable.exec(stderr) ?? []
    if (reason !== undefined) return `npm could not install: ${reason}`
    throw new Error(`npm install ended with ${code}: ${stdout}${stderr}`)
  }

  /** Installs the same package again, as an upgrade does: npm replaces the folder of the old one. */
  async reinstall(): Promise<void> {
    await rm(join(this.prefix, 'lib/node_modules/slipway'), { recursive: true })
    const args = ['install', '--global', ...npmFlags, this.#package]
    this.#expect(['npm', 'install'], 0, await this.#run('npm', args))
  }

  async uninstall(): Promise<CommandOutput> {
    return this.#expect(['npm', 'uninstall'], 0, await this.#run('npm', ['uninstall', '--global', 'slipway']))
  }

  /** Runs `slipway` to its end; fails when the exit code is another one. */
  async run(args: readonly string[], { code = 0, ...options }: CommandOptions = {}): Promise<CommandOutput> {
    return this.#expect(args, code, await this.#run('slipway', args, options))
  }

  /** Runs a command with `--json`; returns the values that it prints. */
  // biome-ignore lint/suspicious/noExplicitAny: each test checks the members that it reads
  async json(args: readonly string[], options: CommandOptions = {}): Promise<any[]> {
    const { stdout } = await this.run(['--json', ...args], options)
    return stdout
      .trim()
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
  }

  /** Runs another program of the machine. */
  async shell(script: string): Promise<string> {
    const { stdout } = this.#expect([script], 0, await this.#run('bash', ['-ec', script]))
    return stdout
  }

  /** Starts a server with `--json`; resolves when it says where it is. */
  async start(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    { cwd = this.project, uid }: Pick<CommandOptions, 'cwd' | 'uid'> = {},
  ): Promise<BackgroundServer> {
    const child = spawn('slipway', ['--json', ...args], {
      ...{ cwd, uid },
      env: { ...this.#environment(), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#servers.add(child)
    let errors = ''
    child.stderr.on('data', (chunk) => {
      errors += chunk
    })
    const ended = once(child, 'close').then(([code]) => code as number | null)
    const lines = createInterface({ input: child.stdout })
    const line = await Promise.race([
      once(lines, 'line').then(([first]) => String(first)),
      ended.then((code) => Promise.reject(new Error(`slipway ${args[0]} ended with ${code}: ${errors}`))),
    ])
    this.commandCount++
    const stop = async () => {
      child.kill('SIGTERM')
      this.#servers.delete(child)
      return await ended
    }
    return { child, ready: JSON.parse(line), stop }
  }

  /** Processes that this user started and that still run. */
  async processes(): Promise<readonly number[]> {
    return (await findProcesses(this.directory)) ?? []
  }

  /** Folders and files below the home directory, those of the project left out; sorted. */
  async listHome(): Promise<string[]> {
    const paths = await readdir(this.home, { recursive: true })
    return paths
      .filter((path) => !/^(?:project|\.cache(?:\/slipway(?:\/compile-cache.*)?)?$)/.test(path))
      .toSorted()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#servers) child.kill('SIGKILL')
    for (const pid of await this.processes()) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {}
    }
    await rm(this.directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
  }

  #environment(): Record<string, string> {
    const inherited = Object.entries(process.env).filter(([name]) => /proxy$|_CA_|^SSL_|^LANG$/i.test(name))
    return {
      ...(Object.fromEntries(inherited) as Record<string, string>), // a variable that is listed has a value
      PATH: [join(this.prefix, 'bin'), this.#nodeDirectory, '/usr/bin', '/bin', '/usr/sbin', '/sbin'].join(
        delimiter,
      ),
      HOME: this.home,
      TMPDIR: join(this.directory, 'tmp'),
      NO_COLOR: '1',
      SLIPWAY_LOG_LEVEL: 'error',
      GIT_AUTHOR_NAME: 'A',
      GIT_AUTHOR_EMAIL: 'a@example.org',
      GIT_COMMITTER_NAME: 'A',
      GIT_COMMITTER_EMAIL: 'a@example.org',
      npm_config_prefix: this.prefix,
      ...this.#npmSettings,
    }
  }

  async #run(program: string, args: readonly string[], options: Omit<CommandOptions, 'code'> = {}) {
    const { input = '', env = {}, cwd = this.project, uid } = options
    // By its path: what runs is the one of this user.
    const own = program === 'slipway' ? join(this.prefix, 'bin', program) : program
    const child = spawn(own, args, { cwd, uid, env: { ...this.#environment(), ...env }, timeout: 120_000 })
    child.stdin.on('error', () => undefined).end(input)
    const [stdout, stderr, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ])
    this.commandCount++
    return { stdout, stderr, code: code as number | null }
  }

  #expect(
    args: readonly string[],
    expected: number,
    { stdout, stderr, code }: CommandOutput & { code: number | null },
  ): CommandOutput {
    if (code !== expected)
      throw new Error(`${args.join(' ')}: ${code} instead of ${expected}\n${stdout}\n${stderr}`)
    if (/^\s+at .*\.[jt]s:\d+/m.test(stderr)) throw new Error(`${args.join(' ')}: a stack\n${stderr}`)
    return { stdout, stderr }
  }
}

const npmFlags = ['--no-audit', '--no-fund']
