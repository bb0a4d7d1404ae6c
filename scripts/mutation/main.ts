import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { startReaper } from '../test/reaper.ts'
import { countLines, type DrawnLine, drawLines, type Source } from './draw.ts'
import { describeMutation, findMutations, type Mutation } from './mutations.ts'
import { makePrivateCopy, readSources } from './private-copy.ts'
import {
  describeFaults,
  describePlace,
  type FaultResult,
  findMissed,
  type MutationRun,
  type RefusedFault,
  readEquivalents,
  readRuns,
  writeRun,
} from './results.ts'
import { type Stage, stages } from './stages.ts'
import { Tree } from './tree.ts'

// Do tests find faults? Plants small faults, one at a time, in a private copy of a commit, and runs tests until
// one fails: those that reach the file by imports, then `npm test`, then the programs and servers of the
// package, and with `--all` then `npm run test:all`. Each stage runs for all faults before the next one
// begins.
//
// The commit is the seed. It orders all lines of all production sources, and the first lines at which a fault
// applies and compiles are the faults: nobody chooses them, and a second run draws the same. Faults that the
// compiler refuses never reach tests; they are recorded, and the next one of the line, or of the order, is tried.
//
// Each result is written to bench/results/mutation.json as soon as it is known, and a run continues behind
// what is there; a run with more stages repeats only these for what is not found. After `--minutes` it ends,
// and the stage that it cuts is repeated by the next run. A failed test counts when it passes without the
// fault; if it fails too, the run stops.

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: 'HEAD' },
    count: { type: 'string', default: '30' },
    related: { type: 'boolean', default: false },
    all: { type: 'boolean', default: false },
    minutes: { type: 'string' },
  },
})
const root = resolve(import.meta.dirname, '../..')
const results = join(root, 'bench/results')
const resultsPath = join(results, 'mutation.json')
const seed = execFileSync('git', ['-C', root, 'rev-parse', '--verify', `${values.seed}^{commit}`], {
  encoding: 'utf8',
}).trim()
const equivalents = readEquivalents(join(results, 'mutation-equivalents.json'), seed)
const count = Number(values.count)
if (!Number.isInteger(count) || count < 1) throw new Error('--count must be a positive integer')
const minutes = values.minutes === undefined ? undefined : Number(values.minutes)
if (minutes !== undefined && !(minutes > 0)) throw new Error('--minutes must be a positive number')
const usedStages = stages.slice(0, values.related ? 1 : values.all ? 4 : 3)

const folder = mkdtempSync(join(tmpdir(), 'slm-'))
// Tests run programs as other users too.
chmodSync(folder, 0o711)
const reaper = startReaper(folder)
const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    stop.abort()
    void reaper.reap().then(() => process.exit(128 + constants.signals[signal]))
  })
try {
  process.exitCode = await main()
} finally {
  await reaper.reap()
}

async function main(): Promise<number> {
  console.log(`Seed ${seed}: copying the repository`)
  const place = makePrivateCopy(root, seed, folder)
  const sources = readSources(place)
  const tree = new Tree({ folder, root: place, signal: stop.signal })
  let run = readRuns(resultsPath).find((one) => one.seed === seed) ?? {
    seed,
    at: new Date().toISOString(),
    lines: sources.reduce((sum, { text }) => sum + countLines(text), 0),
    faults: [],
    refused: [],
  }
  const save = async (change: Partial<MutationRun>) => {
    run = { ...run, ...change }
    await writeRun(resultsPath, run)
  }
  const describe = () => describeFaults(run.faults.slice(0, count), equivalents)
  if (minutes !== undefined) endAfter(minutes, describe)
  if (!(await tree.isAccepted())) throw new Error(`${seed} does not compile`)
  const lines = drawLines(seed, sources, (run.faults.at(-1)?.draw ?? -1) + 1)
  for (const stage of usedStages)
    for (let index = 0; index < count; index++) {
      const fault =
        run.faults[index] ??
        (await nextFault(tree, lines, run.refused, (refused) => save({ refused: [...run.refused, refused] })))
      if (fault.foundBy !== undefined || fault.passed.includes(stage.name)) continue
      console.log(`${index + 1}/${count} ${describePlace(fault)}\n  - ${fault.before}\n  + ${fault.after}`)
      const result = await search(tree, stage, fault, findMutation(sources, fault))
      await save({ faults: run.faults.toSpliced(index, 1, result) })
    }
  console.log(['', ...describe()].join('\n'))
  return findMissed(run.faults.slice(0, count), equivalents).length === 0 ? 0 : 1
}

/** Ends the process after a time, as a signal does, with what is known then. */
function endAfter(limit: number, describe: () => readonly string[]): void {
  const timer = setTimeout(() => {
    stop.abort()
    console.log(['', `Ended after ${limit} minutes; the next run continues here.`, ...describe()].join('\n'))
    void reaper.reap().then(() => process.exit(1))
  }, limit * 60_000)
  timer.unref()
}

/** The next fault that compiles. */
async function nextFault(
  tree: Tree,
  lines: Generator<DrawnLine>,
  refused: readonly RefusedFault[],
  onRefused: (fault: RefusedFault) => Promise<void>,
): Promise<FaultResult> {
  // Not a loop over the lines: it would end them.
  for (let next = lines.next(); next.done !== true; next = lines.next()) {
    const { draw, line, mutations, source } = next.value
    for (const mutation of mutations) {
      const [before, after] = describeMutation(source.text, mutation)
      const fault = { draw, file: source.file, line, kind: mutation.kind, before, after }
      if (refused.some((other) => other.draw === draw && other.after === after)) continue
      const isAccepted = await tree.withFault(fault.file, mutation, () => tree.isAccepted(fault.file))
      if (isAccepted) return { ...fault, passed: [], seconds: 0 }
      await onRefused(fault)
      console.log(`Does not compile: ${describePlace(fault)}`)
    }
  }
  throw new Error('No line is left at which a fault applies')
}

function findMutation(sources: readonly Source[], { file, line, after }: FaultResult): Mutation {
  const text = sources.find((source) => source.file === file)?.text ?? ''
  const mutation = findMutations(file, text).find(
    (one) => one.line === line && describeMutation(text, one)[1] === after,
  )
  if (mutation === undefined) throw new Error(`${file}:${line} has no such fault: ${after}`)
  return mutation
}

/** Runs a stage for a fault. */
async function search(
  tree: Tree,
  stage: Stage,
  fault: FaultResult,
  mutation: Mutation,
): Promise<FaultResult> {
  const startedAt = performance.now()
  const secondsNow = () => Math.round(fault.seconds + (performance.now() - startedAt) / 1000)
  const { failure, count: tests } = await tree.withFault(fault.file, mutation, () =>
    tree.runStage(stage, fault.file),
  )
  if (failure === undefined) {
    console.log(`  ${stage.name}: not found (${tests}; ${secondsNow()} s)`)
    return { ...fault, passed: [...fault.passed, stage.name], seconds: secondsNow() }
  }
  await tree.assertPasses(stage, failure)
  console.log(`  ${stage.name}: found (${secondsNow()} s): ${failure}`)
  return { ...fault, foundBy: stage.name, test: failure, seconds: secondsNow() }
}
