import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

export const mainPath = fileURLToPath(new URL('../main.js', import.meta.url))

interface CommandOptions {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
}

/** Starts a command without the settings of whoever runs the tests. */
export function spawnCommand(
  args: readonly string[],
  { cwd, env }: CommandOptions,
): ChildProcessWithoutNullStreams {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(SLIPWAY|LLM|OH|GIT|XDG)_/.test(name))
  return spawn(process.execPath, [mainPath, ...args], {
    env: { ...Object.fromEntries(inherited), ...env },
    cwd,
  })
}

/** Runs a command to its end. */
export async function runCommand(
  args: readonly string[],
  { input = '', ...options }: CommandOptions & { readonly input?: string },
): Promise<{ stdout: string; stderr: string; code: number | null }> {
  const child = spawnCommand(args, options)
  child.stdin.on('error', () => undefined).end(input)
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  return { stdout, stderr, code }
}
