import { execFileSync } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { endure, resultTable } from './endure.ts'

/**
 * `npm run endure [-- --conversations N] [--seed N] [--first N] [--model TEXT] [--results FILE]`: random
 * conversations with random models, faults and kills; prints what happened, and adds a line to the results.
 * Exits with 1 when a conversation is dead.
 */
const { values } = parseArgs({
  options: {
    conversations: { type: 'string', default: '100' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    first: { type: 'string', default: '0' },
    model: { type: 'string', default: '' },
    results: { type: 'string' },
  },
})
const [conversations, seed, first] = [values.conversations, values.seed, values.first].map(Number)
if (![conversations, seed, first].every((number) => Number.isSafeInteger(number)) || !conversations) {
  console.error('--conversations, --seed and --first are whole numbers.')
  process.exit(2)
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

console.log(`seed ${seed}`)
const started = Date.now()
const result = await endure({
  conversations,
  seed: seed ?? 0,
  first: first ?? 0,
  model: values.model,
  onProgress: (done) => {
    if (done % 100 === 0) console.log(`${done} of ${conversations}`)
  },
})
console.log(resultTable(result))
const { outcomes, kills, provider } = result
const dead = outcomes.filter(({ death }) => death !== undefined)
if (values.results !== undefined) {
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
  const line = {
    ...{ when: new Date(started).toISOString(), commit, seed, first, conversations, kills },
    seconds: Math.round((Date.now() - started) / 1000),
    ...{ requests: provider.requests, faults: provider.faults, refusals: provider.refusals },
    dead: dead.map(({ number, death }) => ({ number, death })),
  }
  appendFileSync(values.results, `${JSON.stringify(line)}\n`)
}
process.exitCode = dead.length > 0 || Object.keys(provider.refusals).length > 0 ? 1 : 0
