import { type ChildProcess, type ChildProcessWithoutNullStreams, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { bundledProgram, commandMain } from '@slipway/shared/process/testing'
import { afterAll } from 'vitest'

const hostPath = bundledProgram('packages/cli/src/testing/command-host.ts')

interface CommandOptions {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
}

export interface HostedCommand {
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly input: string | Uint8Array
}

export interface HostedResult {
  readonly stdout: Uint8Array
  readonly stderr: Uint8Array
  readonly code: number | null
}

/** Starts a command without the settings of whoever runs the tests. */
export function spawnCommand(
  args: readonly string[],
  { cwd, env }: CommandOptions,
): ChildProcessWithoutNullStreams {
  return spawn(process.execPath, [commandMain, ...args], { env: environment(env), cwd })
}

type CommandInput = CommandOptions & { readonly input?: string | Uint8Array }

/**
 * Runs a command to its end, in a process that has run others where that makes no difference; at night each
 * is its own process.
 */
export async function runCommand(
  args: readonly string[],
  options: CommandInput,
): Promise<{ stdout: string; stderr: string; code: number | null }> {
  const { stdout, stderr, code } = await runForBytes(args, options)
  return { stdout: stdout.toString(), stderr: stderr.toString(), code }
}

/** The same with what it printed as bytes. */
export async function runForBytes(
  args: readonly string[],
  { input = '', ...options }: CommandInput,
): Promise<{ stdout: Buffer; stderr: Buffer; code: number | null }> {
  const { stdout, stderr, code } = needsProcess(args, options)
    ? await runProcess(args, options, input)
    : await runHosted({ args, cwd: options.cwd, env: environment(options.env), input })
  return { stdout: Buffer.from(stdout), stderr: Buffer.from(stderr), code }
}

function environment(env: CommandOptions['env'] = {}): Record<string, string> {
  const isInherited = (entry: [string, string | undefined]): entry is [string, string] =>
    !/^(SLIPWAY|LLM|OH|GIT|XDG)_/.test(entry[0])
  return { ...Object.fromEntries(Object.entries(process.env).filter(isInherited)), ...env }
}

/** Servers change their process, and Node reads some variables at its start alone. */
function needsProcess(args: readonly string[], { env = {} }: CommandOptions): boolean {
  const isServer = args.some((arg) => ['serve', 'sandbox-server', 'demo', 'demo-sandbox'].includes(arg))
  const isAnsweredBefore = args.length === 1 && /^(-v|--version)$/.test(args[0] ?? '')
  const hasNodeSettings = Object.keys(env).some((name) => /^NODE_|_proxy$/i.test(name))
  return process.env.SLIPWAY_NIGHTLY === '1' || isServer || isAnsweredBefore || hasNodeSettings
}

async function runProcess(
  args: readonly string[],
  options: CommandOptions,
  input: string | Uint8Array,
): Promise<HostedResult> {
  const child = spawnCommand(args, options)
  child.stdin.on('error', () => undefined).end(input)
  const [stdout, stderr, [code]] = await Promise.all([
    buffer(child.stdout),
    buffer(child.stderr),
    once(child, 'close'),
  ])
  return { stdout, stderr, code }
}

const hosts = new Set<ChildProcess>()
const idleHosts: ChildProcess[] = []

afterAll(async () => {
  for (const host of hosts) {
    const ended = once(host, 'exit')
    host.disconnect()
    await ended
  }
  hosts.clear()
  idleHosts.length = 0
})

/** Commands that run at the same time have their own hosts. */
async function runHosted(command: HostedCommand): Promise<HostedResult> {
  const host = idleHosts.pop() ?? startHost()
  const ended = once(host, 'exit').then(([code]) => {
    throw new Error(`slipway ${command.args.join(' ')}: its process ended with ${code}`)
  })
  host.send(command)
  const [result] = await Promise.race([once(host, 'message'), ended])
  ended.catch(() => undefined)
  idleHosts.push(host)
  return result
}

function startHost(): ChildProcess {
  const host = fork(hostPath, {
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  hosts.add(host)
  return host
}
