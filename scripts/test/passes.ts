import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { isInstalled } from './is-installed.ts'
import { runVitest } from './run-vitest.ts'
import { type LatePass, latePasses } from './suites.ts'

// All tests in passes beside each other: the late ones have the tests of other people's programs, and begin
// when `.ci/build` has made these. What is not built `maxWaitMs` after the first pass has ended is skipped.

const maxWaitMs = 10 * 60_000
/** Three more than cores: the files of this pass spend most of their time with waiting for programs. */
const firstWorkers = availableParallelism() + 3

const [folder = '', ...args] = process.argv.slice(2)
if (args.length === 0 && process.env.SLIPWAY_NIGHTLY !== '1') process.env.SLIPWAY_TEST_GATE = '1'
const late = namesOf(latePasses).filter(isWanted)
const build = spawn(late.length > 0 ? '.ci/build' : 'true', { stdio: ['ignore', 'ignore', 'inherit'] })
const lateEnd = once(build, 'exit').then(() => late.length === 0 || runLatePasses())
const otherProjects = namesOf(latePasses).map((name) => `!${name}`)
const isFirstGreen = await runVitest(
  { name: 'first', projects: otherProjects, workers: firstWorkers },
  folder,
  args,
)
const timer = setTimeout(() => {
  console.error(`What is not built ${maxWaitMs / 60_000} minutes after the first pass is skipped.`)
  build.kill()
}, maxWaitMs)
build.once('exit', () => clearTimeout(timer))
if (build.exitCode !== null || build.signalCode !== null) clearTimeout(timer)
const isLateGreen = await lateEnd
process.exitCode = isFirstGreen && isLateGreen ? 0 : 1

/** Engines and clusters are not started for files that need none of them. */
function isWanted(pass: LatePass): boolean {
  const has = (file: string) => latePasses[pass].suffixes.some((suffix) => file.includes(`.${suffix}.`))
  return args.length === 0 || args.some((arg) => !arg.endsWith('.test.ts') || has(arg))
}

async function runLatePasses(): Promise<boolean> {
  if (process.env.SLIPWAY_TEST_GATE !== '1') {
    const compose = spawnSync('.ci/docker-compose', { encoding: 'utf8' }).stdout.trim()
    if (compose !== '') process.env.SLIPWAY_TEST_COMPOSE = compose
  }
  const engines = canRunEngines() ? ['.ci/engines'] : []
  const program = [process.execPath, join(import.meta.dirname, 'late-passes.ts'), folder, late.join(',')]
  const [command = '', ...rest] = [...engines, ...program, ...args]
  const [code] = await once(spawn(command, rest, { stdio: ['ignore', 'inherit', 'inherit'] }), 'exit')
  return code === 0
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

function namesOf<Name extends string>(table: Readonly<Record<Name, unknown>>): Name[] {
  return Object.keys(table) as Name[]
}
