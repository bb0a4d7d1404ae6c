import { spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { guarantees } from './guarantees.ts'
import { keptRounds, type Outcome, readOutcomes, resultTable } from './results.ts'

test('a recorded run continues after its last rounds', { timeout: 180_000 }, async () => {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-results-'))
  try {
    const results = join(directory, 'results', 'all.jsonl')
    const run = (rounds: number) => {
      const args = ['idle-sockets', '--rounds', String(rounds), '--results', results]
      const main = join(import.meta.dirname, 'main.ts')
      const { status, stdout } = spawnSync(process.execPath, [main, ...args], { encoding: 'utf8' })
      expect(status).toBe(0)
      return stdout
    }
    expect(run(1)).toContain('| idle-sockets | 1 | kept | sockets 10, received 10,')
    expect(run(3)).toContain('| idle-sockets | 3 | kept | sockets 30, received 30,')
    run(3)
    const recorded = readOutcomes(results)
    expect(recorded.map(({ name, result, rounds }) => [name, result, rounds])).toEqual([
      ['idle-sockets', 'kept', 1],
      ['idle-sockets', 'kept', 2],
    ])
    for (const { commit, machine, command } of recorded) {
      expect(commit).toMatch(/^(?:[0-9a-f]{40}\+?|unknown)$/)
      expect(machine).toContain(process.version)
      expect(command).toContain('npm run contract -- idle-sockets')
    }
  } finally {
    await rm(directory, { recursive: true })
  }
})

test('counts are added up, and a broken part is not hidden by later ones', () => {
  const part = (more: Partial<Outcome>): Outcome => ({
    ...{ name: 'kills', result: 'kept', rounds: 2, seconds: 1, figures: {} },
    ...{ date: '', commit: '', machine: '', command: '' },
    ...more,
  })
  const kept = [
    part({ figures: { kills: 2, 'start p95 ms': 30 } }),
    part({ figures: { kills: 2, 'start p95 ms': 20 } }),
  ]
  expect(resultTable(guarantees, kept)).toContain('| kills | 4 | kept | kills 4, start p95 ms 30 |')
  const broken = part({ result: 'broken', reason: 'an event is lost' })
  expect(resultTable(guarantees, [broken, ...kept])).toContain('| kills | 4 | broken: an event is lost |')
  expect(keptRounds([broken, ...kept], 'kills')).toBe(4)
  expect(resultTable(guarantees, [part({ result: 'not shown', rounds: 0, reason: 'no mounts' })])).toContain(
    '| kills | 0 | not shown: no mounts |',
  )
})
