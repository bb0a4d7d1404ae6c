import { appendFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { parseArgs } from 'node:util'
import { serveSandboxes } from '@slipway/sandbox-server'

/**
 * The sandbox server as `slipway sandbox-server` starts it, which kills itself at one of its steps. `--steps FILE` is where their
 * names are written, one a line; `--kill-at N` is the number of the last one. With `--commits` each commit of a database is a
 * step too, otherwise those of the sandboxes alone are.
 */
const { values } = parseArgs({
  options: {
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '0' },
    data: { type: 'string', default: '' },
    steps: { type: 'string', default: '' },
    'kill-at': { type: 'string', default: '0' },
    commits: { type: 'boolean', default: false },
  },
})
const killAt = Number(values['kill-at'])
let count = 0
let isServing = false

function step(name: string): void {
  count += 1
  // What is written is in the file also when the process is killed in the next line.
  appendFileSync(values.steps, `${name}\n`)
  if (count === killAt) process.kill(process.pid, 'SIGKILL')
}

if (values.commits) {
  const exec = DatabaseSync.prototype.exec
  DatabaseSync.prototype.exec = function (sql: string): void {
    const isStep = isServing && sql === 'COMMIT'
    if (isStep) step('before commit')
    exec.call(this, sql)
    if (isStep) step('after commit')
  }
}

const root = resolve(import.meta.dirname, '..')
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
await serveSandboxes({
  host: values.host,
  port: Number(values.port),
  data: values.data,
  env: process.env,
  agent: {
    command: [process.execPath, resolve(root, 'packages/agent-server/src/main.ts')],
    readable: [process.execPath, resolve(root, 'packages'), resolve(root, 'node_modules')],
  },
  isKeyWanted: false,
  signal: stop.signal,
  onStep: step,
  ready: ({ url }) => {
    isServing = true
    console.log(JSON.stringify({ url }))
  },
})
