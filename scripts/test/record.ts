import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, loadavg } from 'node:os'
import { calibrate } from '../calibration.ts'
import { cpuSeconds } from './cpu-seconds.ts'

// `node scripts/test/record.ts <results.json> <name> <command...>` runs a command and adds how it ended to a
// JSON array in a file. Ends as the command does.

const [path = '', name = '', program = '', ...args] = process.argv.slice(2)
/** The end of the output that is searched for the line of counts. */
const keptBytes = 8192

const record = {
  name,
  at: new Date().toISOString(),
  commit: spawnSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).stdout.trim(),
  cores: availableParallelism(),
  loadBefore: Math.round((loadavg()[0] ?? 0) * 10) / 10,
  calibrationSeconds: calibrate().seconds,
}
const startedAt = performance.now()
const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
let end = ''
child.stdout.on('data', (chunk: Buffer) => {
  process.stdout.write(chunk)
  end = `${end}${chunk}`.slice(-keptBytes)
})
const [code, signal] = await once(child, 'close')
const rows: unknown[] = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : []
rows.push({
  ...record,
  wallSeconds: Math.round((performance.now() - startedAt) / 1000),
  cpuSeconds: Math.round(cpuSeconds() ?? 0),
  outcome: signal ?? code,
  counts: end.match(/^\d+ passed, \d+ failed.*$/gm)?.at(-1),
})
writeFileSync(path, `${JSON.stringify(rows, undefined, 1)}\n`)
process.exitCode = code ?? 1
