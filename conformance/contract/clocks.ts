import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { expect } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import type { Guarantee } from './guarantee.ts'
import { MessageLedger, readStream } from './message-ledger.ts'

const tenYearsMs = 10 * 365 * 24 * 60 * 60 * 1000

/**
 * Shifts the clock of the server's process by the milliseconds in a file, which is read again every 10 ms.
 */
const shiftedClock = (path: string) => `
import { readFileSync } from 'node:fs'
const RealDate = Date
let offset = 0
let readAt = 0
const now = () => {
  const real = RealDate.now()
  if (real - readAt > 10) {
    readAt = real
    offset = Number(readFileSync(${JSON.stringify(path)}, 'utf8')) || 0
  }
  return real + offset
}
globalThis.Date = class extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(now())
    else super(...args)
  }
  static now = now
}
`

/**
 * Jumps of the wall clock by up to ten years in both directions, while messages are written and over
 * restarts.
 */
export const clocks: Guarantee = {
  promise: 'A wall clock that jumps changes no order: timestamps of a conversation only rise.',
  round: 'moves the clock of a server under load by up to ten years; each tenth time it is also restarted',
  partRounds: 200,
  async run(rounds) {
    const directory = await mkdtemp(join(tmpdir(), 'slipway-clock-'))
    try {
      const offset = join(directory, 'offset')
      const preload = join(directory, 'clock.mjs')
      await writeFile(offset, '0')
      await writeFile(preload, shiftedClock(offset))
      await using server = await OwnAgentServer.open({
        env: { NODE_OPTIONS: `--import ${pathToFileURL(preload)}` },
      })
      const ledger = await MessageLedger.open(server.api, 2)
      for (let round = 0; round < rounds; round++) {
        const over = new AbortController()
        const load = ledger.write(server.api, { label: `round ${round}`, signal: over.signal, writers: 2 })
        await sleep(15)
        await writeFile(offset, String(Math.round((Math.random() * 2 - 1) * tenYearsMs)))
        await sleep(25)
        over.abort()
        await load
        if (round % 10 === 9) await server.restart('SIGTERM')
      }
      await ledger.verify(server.api)
      for (const id of ledger.conversations) {
        const times = (await readStream(server.api, id)).events.map(({ timestamp }) => String(timestamp))
        expect(times).toEqual(times.toSorted())
        expect(new Set(times).size).toBe(times.length)
      }
      expect(ledger.acknowledged).toBeGreaterThan(rounds)
      return { jumps: rounds, acknowledged: ledger.acknowledged, 'timestamps that fall': 0 }
    } finally {
      await rm(directory, { recursive: true })
    }
  },
}
