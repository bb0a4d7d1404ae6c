import { appendFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { parseArgs } from 'node:util'
import { serveSandboxes } from '@slipway/sandbox-server'

/**
 * The sandbox server as `slipway sandbox-server` starts it, which kills itself at one of its steps. `--steps
 * FILE` receives the names of the steps, one a line; `--kill-at` is the last one: `3 before start` is the
 * third of this name. With `--commits` each commit of a database is a step too, otherwise only the steps of
 * sandboxes.
 */
const { values } = parseArgs({
  options: {
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '0' },
    data: { type: 'string', default: '' },
    steps: { type: 'string', default: '' },
    'kill-at': { type: 'string', default: '' },
    commits: { type: 'boolean', default: false },
  },
})
const counts = new Map<string, number>()
let isServing = false

function recordStep(name: string): void {
  const count = (counts.get(name) ?? 0) + 1
  counts.set(name, count)
  // Written synchronously, so the line is in the file when the process is killed in the next statement.
  appendFileSync(values.steps, `${count} ${name}\n`)
  if (`${count} ${name}` === values['kill-at']) process.kill(process.pid, 'SIGKILL')
}

if (values.commits) {
  const exec = DatabaseSync.prototype.exec
  DatabaseSync.prototype.exec = function (sql: string): void {
    const isStep = isServing && sql === 'COMMIT'
    if (isStep) recordStep('before commit')
    exec.call(this, sql)
    if (isStep) recordStep('after commit')
  }
}

const root = resolve(import.meta.dirname, '../../..')
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
await serveSandboxes({
  host: values.host,
  port: Number(values.port),
  data: values.data,
  env: process.env,
  // The command of `slipway sandbox-server`: for another one each start would compile the agent server again.
  agent: {
    command: [process.execPath, resolve(root, 'packages/cli/src/main.js'), '--no-config', 'serve'],
    readable: [process.execPath, resolve(root, 'packages'), resolve(root, 'node_modules')],
  },
  isKeyWanted: false,
  signal: stop.signal,
  onStep: recordStep,
  ready: ({ url }) => {
    isServing = true
    console.log(JSON.stringify({ url }))
  },
})
