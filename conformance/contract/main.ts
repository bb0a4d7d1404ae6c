import { writeFile } from 'node:fs/promises'
import { cpus, totalmem } from 'node:os'
import { parseArgs } from 'node:util'
import { roundsOf } from './guarantee.ts'
import { guarantees } from './guarantees.ts'

/**
 * `npm run contract [-- NAME ...] [--rounds N] [--minutes N] [--output FILE]`: shows every promise of
 * CONTRACT.md against servers that it starts, and prints what it measured. Exits with 1 when a promise is
 * broken.
 */
const { values, positionals } = parseArgs({
  options: {
    rounds: { type: 'string', default: '20' },
    minutes: { type: 'string' },
    output: { type: 'string' },
  },
  allowPositionals: true,
})
const rounds = Number(values.rounds)
const minutes = values.minutes === undefined ? undefined : Number(values.minutes)
const unknown = positionals.filter((name) => guarantees[name] === undefined)
const isTimeWrong = minutes !== undefined && !(minutes > 0)
if (unknown.length > 0 || !Number.isSafeInteger(rounds) || rounds < 1 || isTimeWrong) {
  console.error(
    unknown.length > 0
      ? `No such promise: ${unknown.join(', ')}. There are ${Object.keys(guarantees).join(', ')}.`
      : '--rounds is a whole number of at least 1, --minutes a number above 0.',
  )
  process.exit(2)
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

const lines = [
  `npm run contract -- ${process.argv.slice(2).join(' ')}`,
  `${cpus().length} x ${cpus()[0]?.model}, ${Math.round(totalmem() / 1e9)} GB, ${process.platform} ${process.arch}, node ${process.version}`,
  '',
]
console.log(lines.join('\n'))
const names = positionals.length > 0 ? positionals : Object.keys(guarantees)
for (const [index, name] of names.entries()) {
  const guarantee = guarantees[name]
  if (guarantee === undefined) continue
  const count = roundsOf(guarantee, rounds, minutes)
  console.log(`${name} (${index + 1} of ${names.length}), ${count} rounds: ${guarantee.round} ...`)
  const startedAt = performance.now()
  const result = await show(name, count)
  const line = `${name}: ${result} (${count} rounds, ${Math.round((performance.now() - startedAt) / 1000)} s)`
  lines.push(line, `  ${guarantee.promise}`)
  console.log(line)
}
if (values.output !== undefined) await writeFile(values.output, `${lines.join('\n')}\n`)
console.log(`\n${process.exitCode === 1 ? 'A promise is broken.' : 'All promises are kept.'}`)

async function show(name: string, count: number): Promise<string> {
  const unavailable = guarantees[name]?.whyUnavailable?.()
  if (unavailable !== undefined) return `not shown, ${unavailable}`
  try {
    const figures = Object.entries((await guarantees[name]?.run(count)) ?? {})
    return `KEPT: ${figures.map(([figure, value]) => `${figure} ${value}`).join(', ')}`
  } catch (error) {
    console.error(error)
    process.exitCode = 1
    return `BROKEN: ${error instanceof Error ? error.message.split('\n', 1)[0] : String(error)}`
  }
}
