import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'

export interface Pass {
  /** Of its results: `<name>.json` in the folder of the run. */
  readonly name: string
  readonly projects: readonly string[]
  readonly workers: number
  /** A program that runs the rest of its command line. */
  readonly wrapper?: readonly string[]
}

/** Runs a pass over all files or those that the arguments name. Resolves with whether it ended with 0. */
export async function runVitest(pass: Pass, folder: string, args: readonly string[]): Promise<boolean> {
  const vitest = resolve('node_modules/vitest/vitest.mjs')
  const projects = pass.projects.map((name) => `--project=${name}`)
  const options = ['--passWithNoTests', `--maxWorkers=${pass.workers}`, ...projects]
  const command = [...(pass.wrapper ?? []), process.execPath, vitest, 'run', ...options, ...args]
  const [program = '', ...rest] = command
  const child = spawn(program, rest, {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, SLIPWAY_TEST_RESULTS: join(folder, `${pass.name}.json`) },
  })
  const [code] = await once(child, 'exit')
  return code === 0
}
