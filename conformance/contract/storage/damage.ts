import { randomInt } from 'node:crypto'
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Guarantee } from '../guarantee.ts'
import { prepareData, readDamaged } from './damaged-reads.ts'

/** One changed bit at a random place of each file in turn, after the server was stopped or killed. */
export const damage: Guarantee = {
  promise:
    'A changed bit in any file of the data directory is noticed: no wrong event is served, and nothing hangs.',
  round:
    'changes one bit of one file, starts a server on the directory and reads every conversation in every way',
  share: 0.5,
  partRounds: 50,
  async run(rounds) {
    const base = await mkdtemp(join(tmpdir(), 'slipway-damage-'))
    try {
      const states = await prepareData(base)
      const outcomes = { harmless: 0, 'reads refused': 0, 'starts refused': 0 }
      const offset = randomInt(1_000)
      for (let round = 0; round < rounds; round++) {
        const data = join(base, 'damaged')
        const state = round % 2 === 0 ? 'stopped' : 'killed'
        await cp(join(base, state), data, { recursive: true })
        const place = await changeOneBit(data, Math.floor(round / 2) + offset)
        try {
          const { outcome } = await readDamaged(data, states[state])
          outcomes[outcome]++
        } catch (error) {
          throw new Error(`bit changed in ${place}: ${String(error)}`, { cause: error })
        } finally {
          await rm(data, { recursive: true })
        }
      }
      // A directory that never opens would show nothing.
      if (rounds >= 10) expect(outcomes['starts refused']).toBeLessThan(rounds)
      return { 'changed bits': rounds, ...outcomes, 'served wrong': 0, 'spinning or hanging': 0 }
    } finally {
      await rm(base, { recursive: true })
    }
  },
}

/** Changes the file whose turn it is, so that all of them get as many; returns the place. */
async function changeOneBit(data: string, turn: number): Promise<string> {
  const entries = await readdir(data, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const sizes = await Promise.all(files.map(async (path) => (await stat(path)).size))
  const filled = files.filter((_, at) => sizes[at] !== 0).toSorted()
  const path = filled[turn % filled.length] ?? ''
  const bytes = await readFile(path)
  const at = randomInt(bytes.length)
  bytes[at] = (bytes[at] ?? 0) ^ (1 << randomInt(8))
  await writeFile(path, bytes)
  return `byte ${at} of ${path}`
}
