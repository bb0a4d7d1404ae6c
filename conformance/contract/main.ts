import { parseArgs } from 'node:util'
import { type Guarantee, roundsOf } from './guarantee.ts'
import { guarantees } from './guarantees.ts'
import {
  addOutcome,
  keptRounds,
  machine,
  type Outcome,
  readCommit,
  readOutcomes,
  resultTable,
} from './results.ts'

/**
 * `npm run contract [-- NAME ...] [--rounds N] [--minutes N] [--results FILE]`: shows every promise of
 * CONTRACT.md against servers that it starts, and prints a table of what it measured. With a results file the
 * rounds that it has are not run again, and what was run is added to it at once, so a run that was ended goes
 * on. Exits with 1 when a promise is broken.
 */
const usage = `npm run contract [-- NAME ...] [--rounds N] [--minutes N] [--results FILE]
Without a name: all. Names: ${Object.keys(guarantees).join(', ')}.`
const { values, positionals } = readArguments()
if (values.help) {
  console.log(usage)
  process.exit()
}
const requested = Number(values.rounds)
const minutes = values.minutes === undefined ? undefined : Number(values.minutes)
const unknown = positionals.filter((name) => guarantees[name] === undefined)
const isTimeWrong = minutes !== undefined && !(minutes > 0)
if (unknown.length > 0 || !Number.isSafeInteger(requested) || requested < 1 || isTimeWrong) {
  console.error(
    unknown.length > 0
      ? `No such promise: ${unknown.join(', ')}. There are ${Object.keys(guarantees).join(', ')}.`
      : '--rounds is a whole number of at least 1, --minutes a number above 0.',
  )
  process.exit(2)
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

const commit = readCommit()
const command = ['npm run contract --', ...process.argv.slice(2)].join(' ')
const outcomes = values.results === undefined ? [] : readOutcomes(values.results)
const names = positionals.length > 0 ? positionals : Object.keys(guarantees)
console.log(`${command}\n${machine}\ncommit ${commit}\n`)
for (const [index, name] of names.entries()) {
  const guarantee = guarantees[name]
  if (guarantee !== undefined) await showAll(name, guarantee, `${index + 1} of ${names.length}`)
}
console.log(`\n${resultTable(guarantees, outcomes)}`)
console.log(`\n${process.exitCode === 1 ? 'A promise is broken.' : 'All promises are kept.'}`)

/** Runs the rounds of a promise that are not recorded yet, and records each part. */
function readArguments() {
  try {
    return parseArgs({
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        rounds: { type: 'string', default: '20' },
        minutes: { type: 'string' },
        results: { type: 'string' },
      },
      allowPositionals: true,
    })
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n${usage}`)
    process.exit(2)
  }
}

async function showAll(name: string, guarantee: Guarantee, at: string): Promise<void> {
  const count = roundsOf(guarantee, requested, minutes)
  console.log(`${name} (${at}), ${count} rounds: ${guarantee.round} ...`)
  const part = values.results === undefined ? count : (guarantee.partRounds ?? count)
  for (;;) {
    const left = count - keptRounds(outcomes, name)
    if (left <= 0) return
    const outcome = await show(name, guarantee, Math.min(left, part))
    outcomes.push(outcome)
    if (values.results !== undefined) addOutcome(values.results, outcome)
    const figures = Object.entries(outcome.figures).map(([figure, value]) => `${figure} ${value}`)
    const text = [outcome.reason ?? [], ...figures].flat().join(', ')
    console.log(
      `${name}: ${outcome.result.toUpperCase()}: ${text} (${outcome.rounds} rounds, ${outcome.seconds} s)`,
    )
    if (outcome.result !== 'kept') return
  }
}

async function show(name: string, guarantee: Guarantee, rounds: number): Promise<Outcome> {
  const startedAt = performance.now()
  const finish = (result: Pick<Outcome, 'result' | 'rounds' | 'figures' | 'reason'>): Outcome => {
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    return { name, ...result, seconds, date: new Date().toISOString(), commit, machine, command }
  }
  const reason = guarantee.whyUnavailable?.()
  if (reason !== undefined) return finish({ result: 'not shown', rounds: 0, figures: {}, reason })
  try {
    return finish({ result: 'kept', rounds, figures: await guarantee.run(rounds) })
  } catch (error) {
    console.error(error)
    process.exitCode = 1
    const reason = (error instanceof Error ? error.message : String(error)).split('\n', 1)[0] ?? ''
    return finish({ result: 'broken', rounds, figures: {}, reason })
  }
}
