import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { isInstalled } from './is-installed.ts'
import { lateProject, lateSuffixes } from './suites.ts'

// All tests in two passes, beside each other: the second has the tests of other people's programs, and begins when
// `.ci/build` has made these. What is not built `maxWaitMs` after the first pass has ended is skipped.

const maxWaitMs = 10 * 60_000

const [resultsFolder = '', ...args] = process.argv.slice(2)
const isLate = (file: string) => lateSuffixes.some((suffix) => file.includes(`.${suffix}.`))
// Files without a need of it start no engines.
const hasSecond = args.length === 0 || !args.every((arg) => arg.endsWith('.test.ts') && !isLate(arg))
const build = spawn(hasSecond ? '.ci/build' : 'true', { stdio: ['ignore', 'ignore', 'inherit'] })
const second = once(build, 'exit').then(() => !hasSecond || runSecond())
const isFirstGreen = await runVitest([], `--project=!${lateProject}`, 'first.json')
const timer = setTimeout(() => {
  console.error(`What is not built ${maxWaitMs / 60_000} minutes after the first pass is skipped.`)
  build.kill()
}, maxWaitMs)
build.once('exit', () => clearTimeout(timer))
if (build.exitCode !== null || build.signalCode !== null) clearTimeout(timer)
const isSecondGreen = await second
process.exitCode = isFirstGreen && isSecondGreen ? 0 : 1

async function runSecond(): Promise<boolean> {
  const compose = spawnSync('.ci/docker-compose', { encoding: 'utf8' }).stdout.trim()
  if (compose !== '') process.env.SLIPWAY_TEST_COMPOSE = compose
  const engines = canRunEngines() ? ['.ci/engines'] : []
  return await runVitest([...engines, '.ci/cluster', 'run'], `--project=${lateProject}`, 'second.json')
}

/** Where mounts are not allowed, no container engine can run. */
function canRunEngines(): boolean {
  return (
    process.env.SLIPWAY_TEST_DOCKER_SOCKET === undefined &&
    isInstalled('dockerd') &&
    isInstalled('podman') &&
    spawnSync('unshare', ['--mount', 'true']).status === 0
  )
}

/** Resolves with whether it ended with 0. */
async function runVitest(wrappers: readonly string[], project: string, results: string): Promise<boolean> {
  const vitest = resolve('node_modules/vitest/vitest.mjs')
  const workers = project === `--project=${lateProject}` ? ['--maxWorkers=1'] : []
  const command = [
    ...wrappers,
    process.execPath,
    vitest,
    'run',
    '--passWithNoTests',
    project,
    ...workers,
    ...args,
  ]
  const [program = '', ...rest] = command
  const child = spawn(program, rest, {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, SLIPWAY_TEST_RESULTS: join(resultsFolder, results) },
  })
  const [code] = await once(child, 'exit')
  return code === 0
}
