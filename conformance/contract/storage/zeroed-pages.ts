import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Guarantee } from '../guarantee.ts'
import { prepareData, readDamaged } from './damaged-reads.ts'

const pageBytes = 4096
/** What the refusal of a start names. */
const nextStep = /slipway doctor|slipway accept-log|backup|Delete it while no server uses/

/** Every page of every database, one at a time, after the server was stopped or killed. */
export const zeroedPages: Guarantee = {
  promise:
    'A zeroed page at any place of a database costs what is on it, or the start says what to do: nothing wrong is served.',
  round:
    'zeroes the next page of the databases or their write-ahead logs, reads every conversation in every way, writes to each and kills the server',
  async run(rounds) {
    const base = await mkdtemp(join(tmpdir(), 'slipway-zeroed-'))
    try {
      const states = await prepareData(base)
      const pages = await listPages(base)
      const outcomes = { harmless: 0, 'reads refused': 0, 'starts refused': 0 }
      const counts = { appended: 0, refused: 0 }
      for (let round = 0; round < rounds; round++) {
        const page = pages[round % pages.length]
        if (page === undefined) continue
        const data = join(base, 'damaged')
        await cp(join(base, page.state), data, { recursive: true })
        await zero(join(data, page.file), page.at)
        try {
          const { outcome, appended, refused, reason } = await readDamaged(data, states[page.state], {
            isWritten: true,
          })
          outcomes[outcome]++
          if (reason !== undefined) expect(reason).toMatch(nextStep)
          counts.appended += appended
          counts.refused += refused
        } catch (error) {
          throw new Error(`page at ${page.at} of ${page.file}: ${String(error)}`, { cause: error })
        } finally {
          await rm(data, { recursive: true })
        }
      }
      if (rounds >= 20) expect(counts.appended).toBeGreaterThan(counts.refused)
      const figures = { 'zeroed pages': rounds, 'of pages': pages.length }
      return { ...figures, ...outcomes, ...counts, 'served wrong': 0, lost: 0 }
    } finally {
      await rm(base, { recursive: true })
    }
  },
}

interface Page {
  readonly state: 'stopped' | 'killed'
  readonly file: string
  readonly at: number
}

/**
 * Pages that have something on them, in any order: few rounds are of all kinds. The index of texts is made
 * again from the log.
 */
async function listPages(base: string): Promise<readonly Page[]> {
  const pages: Page[] = []
  for (const state of ['stopped', 'killed'] as const) {
    const names = await readdir(join(base, state))
    for (const file of names.filter((name) => /^(?!index).*\.db(?:-wal)?$/.test(name))) {
      const bytes = await readFile(join(base, state, file))
      for (let at = 0; at < bytes.length; at += pageBytes)
        if (bytes.subarray(at, at + pageBytes).some((byte) => byte !== 0)) pages.push({ state, file, at })
    }
  }
  return pages
    .map((page) => ({ page, order: Math.random() }))
    .sort((one, other) => one.order - other.order)
    .map(({ page }) => page)
}

async function zero(path: string, at: number): Promise<void> {
  const bytes = await readFile(path)
  bytes.fill(0, at, Math.min(at + pageBytes, bytes.length))
  await writeFile(path, bytes)
}
