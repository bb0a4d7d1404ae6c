import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { calibrate } from '../calibration.ts'
import { cpuSeconds } from './cpu-seconds.ts'
import { isInstalled } from './is-installed.ts'
import { startReaper } from './reaper.ts'
import { countLine, describeFailures, describeRun, mergeResults, type RunResults } from './results.ts'
import { dailyProjects, latePasses, needs, nightlyFiles } from './suites.ts'

// The tests of a person (`npm test`), all of them (`npm run test:all`), or those that a change reaches
// (`npm run test:changed`). Further arguments are Vitest's: files, `-t <name>`, `--project <name>`.
//
// A run keeps everything in one temporary folder, also the programs that its tests start: they inherit it as
// TMPDIR. A reaper removes both when the run ends, however it does. Of all tests it has the compiled code
// too: a test with its own home directory would compile each server and command again, which is half of
// the time of a start, and by day the programs as bundles, whose starts take three fifths of the CPU time.
// The tests of a person start few programs, and the cache costs Vitest itself more.

const [mode = 'daily', ...args] = process.argv.slice(2)
const root = resolve(import.meta.dirname, '../..')
const startedAt = performance.now()
const machineAtStart = machineTimes()
const folder = mkdtempSync(join(tmpdir(), 'slw-'))
// Tests run programs as other users too.
chmodSync(folder, 0o1777)
const codeFolder = join(folder, 'code')
mkdirSync(codeFolder)
chmodSync(codeFolder, 0o1777)
const resultsPath = join(folder, 'results.json')
// At night programs run as they lie in the working tree.
const programs = mode === 'all' && process.env.SLIPWAY_NIGHTLY !== '1' ? join(folder, 'programs') : undefined
const passResults = ['first', ...Object.keys(latePasses)].map((name) => join(folder, `${name}.json`))
const reaper = startReaper(folder)
if (programs !== undefined) await (await import('./bundle-programs.ts')).bundlePrograms(programs)

const [program = '', ...programArgs] = [...postgres(), process.execPath, ...testArgs()]
const child = spawn(program, programArgs, {
  cwd: root,
  // A separate group: a signal reaches the wrappers, Vitest and its workers alike.
  detached: true,
  stdio: ['ignore', 'inherit', 'inherit'],
  env: {
    ...process.env,
    TMPDIR: folder,
    ...(mode === 'all' && { NODE_COMPILE_CACHE: codeFolder }),
    // Not those of a run that this one is part of, which may be of another tree.
    SLIPWAY_TEST_PROGRAMS: programs,
    SLIPWAY_TEST_RUN: folder,
    SLIPWAY_TEST_RESULTS: resultsPath,
  },
})
if (child.pid !== undefined) reaper.watch(child.pid)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    if (child.pid !== undefined) process.kill(-child.pid, signal)
  })
const [code] = await once(child, 'exit')
const results = readResults()
// A pass that ended without results is no part of a record.
const isWhole = mode === 'all' && args.length === 0 && passResults.every((path) => existsSync(path))
await reaper.reap()
if (results !== undefined) printEnd(results)
process.exitCode = code ?? 1

function testArgs(): string[] {
  if (mode === 'all') return [join(import.meta.dirname, 'passes.ts'), folder, ...args]
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  const projects = dailyProjects.map((name) => `--project=${name}`)
  if (mode === 'changed') return [vitest, 'run', '--changed', ...projects, ...args]
  return [vitest, 'run', ...(args.length > 0 ? [] : projects), ...args]
}

/** A program that starts PostgreSQL where this machine has it, and runs the rest of the command line. */
function postgres(): string[] {
  if (process.env.SLIPWAY_TEST_DATABASE_URL !== undefined) return []
  const programs = globSync('/usr/lib/postgresql/*/bin/initdb')
  return programs.length > 0 || isInstalled('initdb') ? ['.ci/postgres'] : []
}

/** Of all passes that came to their end. */
function readResults(): RunResults | undefined {
  const passes = [resultsPath, ...passResults].flatMap((path) => (existsSync(path) ? [readJson(path)] : []))
  return passes.length === 0 ? undefined : mergeResults(passes)
}

function readJson(path: string): RunResults {
  return JSON.parse(readFileSync(path, 'utf8'))
}

function printEnd(results: RunResults): void {
  const lines = ['', ...describeRun(results)]
  const cpu = cpuSeconds()
  const wall = (performance.now() - startedAt) / 1000
  const busyShare = shareOfBusyCores()
  const calibration = calibrate().seconds
  if (isWhole) recordResults({ wall, cpu, busyShare, calibration }, results)
  if (mode === 'daily' && args.length === 0) {
    const kinds = Object.entries(needs).map(([suffix, need]) => `  .${suffix}: ${need}`)
    lines.push('`npm run test:all` adds the files that need', ...kinds, '')
  }
  if (mode === 'all' && args.length === 0 && process.env.SLIPWAY_NIGHTLY !== '1')
    lines.push(`Left to .ci/nightly: ${nightlyFiles.length} files, which scripts/test/suites.ts names`, '')
  const cpuText = cpu === undefined ? '' : `, CPU ${cpu.toFixed(0)} s`
  lines.push(
    `Time: ${wall.toFixed(0)} s${cpuText}, cores busy ${(busyShare * 100).toFixed(0)} % (1 GiB of SHA-256 here: ${calibration.toFixed(1)} s)`,
    ...describeFailures(results.failures),
    countLine(results.count),
  )
  process.stdout.write(`${lines.join('\n')}\n`)
}

/** Of all programs of the machine since this run began: daemons and what else runs beside it too. */
function shareOfBusyCores(): number {
  const now = machineTimes()
  const busy = now.busy - machineAtStart.busy
  return busy / (busy + now.idle - machineAtStart.idle)
}

function machineTimes(): Readonly<Record<'busy' | 'idle', number>> {
  const times = cpus().map((core) => core.times)
  return {
    busy: times.reduce((sum, { user, nice, sys, irq }) => sum + user + nice + sys + irq, 0),
    idle: times.reduce((sum, { idle }) => sum + idle, 0),
  }
}

interface RunTimes extends Readonly<Record<'wall' | 'busyShare' | 'calibration', number>> {
  readonly cpu: number | undefined
}

/** What `npm run test:all` took, by file: the next run begins with the longest. */
function recordResults(
  { wall, cpu, busyShare, calibration }: RunTimes,
  { count, failures, files }: RunResults,
): void {
  const record = {
    at: new Date().toISOString(),
    cores: availableParallelism(),
    wallSeconds: Math.round(wall),
    cpuSeconds: cpu === undefined ? cpu : Math.round(cpu),
    busyShare: Number(busyShare.toFixed(2)),
    calibrationSeconds: calibration,
    count,
    failures,
    files: files.toSorted((one, other) => other.wallSeconds - one.wallSeconds),
  }
  writeFileSync(join(root, 'bench/results/tests.json'), `${JSON.stringify(record, undefined, 1)}\n`)
}
