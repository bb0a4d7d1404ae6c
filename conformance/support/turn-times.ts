import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import type { OwnAgentServer } from './agent-fixture.ts'

/** Settings of a server whose turns `turnsMs` can ask for: it loads this file before its own. */
export const timedServerEnv = {
  NODE_OPTIONS: `--import=${pathToFileURL(import.meta.filename).href}`,
  TURN_TIMES: '1',
}

if (process.env.TURN_TIMES === '1') {
  let turns: number[] = []
  let last = process.threadCpuUsage()
  const count = () => {
    const now = process.threadCpuUsage()
    turns.push((now.user + now.system - last.user - last.system) / 1000)
    last = now
    setImmediate(count).unref()
  }
  process.on('SIGUSR2', () => {
    const longest = turns.toSorted((one, other) => other - one).slice(0, 100)
    process.stderr.write(`turns ${JSON.stringify([turns.length, ...longest])}\n`)
    turns = []
  })
  setImmediate(count)
}

/**
 * CPU time of the turns of a server's event loop since the last call: how long other requests wait, whatever
 * else the machine does. The longest come first, at most 100.
 */
export async function turnsMs(server: OwnAgentServer): Promise<readonly number[]> {
  const reports = () => [...server.output().matchAll(/^turns \[\d+,(.*)\]$/gm)]
  const { length } = reports()
  process.kill(server.pid, 'SIGUSR2')
  for (let waitedMs = 0; waitedMs < 30_000; waitedMs += 20) {
    const report = reports()[length]
    if (report !== undefined) return String(report[1]).split(',').map(Number)
    await sleep(20)
  }
  throw new Error('the server reported no turns')
}
