import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { commandMain } from '@slipway/shared/process/testing'
import { runCommand } from '../../packages/cli/src/testing/command-process.ts'

/** Starts a command of the working tree, without settings of this process. */
export function spawnCli(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ChildProcessByStdio<null, Readable, Readable> {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(SLIPWAY|LLM)_/.test(name))
  return spawn(process.execPath, [commandMain, ...args], {
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Runs a command to its end. */
export async function runCli(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  return await runCommand(args, { cwd: process.cwd(), env })
}

// biome-ignore lint/suspicious/noExplicitAny: each test checks the members that it reads
type JsonOutput = any

/** Runs a command with `--json` that has to succeed; returns what it printed. */
export async function runJson(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<JsonOutput> {
  const { stdout, stderr, code } = await runCli(['--json', ...args], env)
  if (code !== 0) throw new Error(`slipway ${args.join(' ')}: ${code}: ${stderr}`)
  return JSON.parse(stdout)
}
