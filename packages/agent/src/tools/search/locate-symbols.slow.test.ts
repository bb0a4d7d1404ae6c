import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Workspace } from '../../workspace/workspace.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openGrep } from './grep.ts'

const symbolCount = 50

/** Functions of this package, each with its place. */
function functions(directory: string): Map<string, string> {
  const found = new Map<string, string>()
  const entries = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  for (const path of entries.filter((name) => /^(?!.*\.test\.ts$).*\.ts$/.test(name)).sort())
    for (const [at, line] of readFileSync(join(directory, path), 'utf8').split('\n').entries()) {
      const name = /^export (?:async )?function (\w+)/.exec(line)?.[1]
      if (name !== undefined) found.set(name, `${path}:${at + 1}`)
    }
  return found
}

test('fifty functions are located with at most 60 percent of the calls that names of files alone would need', async () => {
  await using fixtures = await ToolFixtures.open()
  const directory = join(import.meta.dirname, '../..')
  await using workspace = await Workspace.open({ directory, env: { PATH: process.env.PATH ?? '' } })
  const grep = [await openGrep({ ...fixtures.context, workspace }, {})].flat()[0]
  if (grep === undefined) throw new Error('no tool')
  const all = [...functions(directory)]
  const chosen = all.filter((_, at) => at % Math.floor(all.length / symbolCount) === 0).slice(0, symbolCount)
  expect(chosen).toHaveLength(symbolCount)
  let calls = 0
  for (const [name, place] of chosen) {
    const args = { pattern: `function ${name}\\b`, path: directory, include: '*.ts' }
    const { outputText } = await fixtures.run(grep, 'GrepObservation', args)
    const [path = '', line] = place.split(':')
    const section = outputText.slice(outputText.indexOf(path))
    const isLocated = outputText.includes(path) && new RegExp(`^\\s*${line}[:-]`, 'm').test(section)
    // Else the file has to be read after the search.
    calls += isLocated ? 1 : 2
  }
  expect(calls).toBeLessThanOrEqual(2 * symbolCount * 0.6)
}, 120_000)
