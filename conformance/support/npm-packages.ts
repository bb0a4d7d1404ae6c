import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startProcess } from './agent-server.ts'

const root = resolve(import.meta.dirname, '../..')
/** What npm prints when it reaches no registry. */
export const registryUnreachable =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED|EHOSTUNREACH|ERR_SOCKET_TIMEOUT/

export interface ProgramResult {
  readonly code: number | null
  readonly output: string
}

/** Runs a program to its end, without our settings of the environment. */
export async function runProgram(
  program: string,
  args: readonly string[],
  options: { cwd: string; env?: Record<string, string> },
): Promise<ProgramResult> {
  const inheritedEnv = Object.entries(process.env).filter(([name]) => !/^(SLIPWAY|LLM|VITEST)/.test(name))
  const child = spawn(program, args, {
    cwd: options.cwd,
    env: { ...Object.fromEntries(inheritedEnv), ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  return await new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, output }))
  })
}

/** The two packages of the working tree, installed by npm into a folder. */
export interface Installation extends AsyncDisposable {
  readonly directory: string
  /** The JavaScript file that npm links as the command. */
  readonly command: string
}

/**
 * Packs and installs. Returns a string when npm cannot: there is no registry, and its cache is incomplete.
 */
export async function installPackages(): Promise<Installation | string> {
  const base = await mkdtemp(join(tmpdir(), 'slipway-installed-'))
  const remove = () => rm(base, { recursive: true, force: true })
  try {
    const directory = join(base, 'app')
    const packageDirectory = await packPackages(join(base, 'dist'))
    await mkdir(directory)
    await writeFile(join(directory, 'package.json'), '{ "name": "app", "private": true, "type": "module" }\n')
    const files = (await readdir(packageDirectory)).map((name) => join(packageDirectory, name))
    const flags = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', '--fetch-retries=1']
    const { code, output } = await runProgram('npm', ['install', ...flags, ...files], { cwd: directory })
    if (code !== 0 && registryUnreachable.test(output)) {
      await remove()
      return `npm could not install: ${registryUnreachable.exec(output)?.[0]}`
    }
    if (code !== 0) throw new Error(`npm install ended with ${code}: ${output}`)
    const command = join(directory, 'node_modules/slipway/packages/cli/src/main.js')
    return { directory, command, [Symbol.asyncDispose]: remove }
  } catch (error) {
    await remove()
    throw error
  }
}

/** Packs the packages of the working tree; returns the path of the one of the command. */
export async function packCommand(directory: string): Promise<string> {
  const packages = await packPackages(directory)
  const file = (await readdir(packages)).find((name) => /^slipway-\d/.test(name))
  if (file === undefined) throw new Error('There is no package of the command')
  return join(packages, file)
}

/** The folder of the packages: in a run of all tests one of all its files, otherwise made in `own`. */
async function packPackages(own: string): Promise<string> {
  const run = process.env.SLIPWAY_TEST_RUN
  if (run === undefined) return await release(own)
  const shared = join(run, 'packages')
  const lock = `${shared}-lock`
  while (!existsSync(shared)) {
    if (await isMade(lock)) {
      try {
        if (!existsSync(shared)) await rename(await release(`${shared}-new`), shared)
      } finally {
        await rmdir(lock)
      }
    } else await sleep(200)
  }
  return shared
}

async function release(directory: string): Promise<string> {
  await runOrThrow(process.execPath, [join(root, 'scripts/release.ts'), '--out', directory], root)
  return directory
}

/** Whether this process has made a folder that was missing. */
async function isMade(path: string): Promise<boolean> {
  return await mkdir(path).then(
    () => true,
    () => false,
  )
}

async function runOrThrow(program: string, args: readonly string[], cwd: string): Promise<void> {
  const { code, output } = await runProgram(program, args, { cwd })
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${output}`)
}

/** `slipway serve` of an installation, with a key; pages of these origins may call it. */
export async function startInstalledServer(
  { directory, command }: Installation,
  sessionKey: string,
  origins: readonly string[],
) {
  const data = join(dirname(directory), 'data')
  const home = join(dirname(directory), 'home')
  await mkdir(home, { recursive: true })
  const env = { SLIPWAY_SESSION_API_KEY: sessionKey, SLIPWAY_ALLOWED_ORIGINS: origins.join(','), HOME: home }
  const server = await startProcess([command, '--json', 'serve', '--port', '0', '--data', data], env)
  const { url } = JSON.parse(server.url)
  return { url: String(url), stop: server.stop }
}
