import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { isRecord, parseJson } from '@slipway/shared/json'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { longFiles, suffixes } from './suites.ts'

/**
 * Begins with the files that took longest in the last recorded run, so that no worker is left alone with one
 * of them at the end. Without a record the long ones begin, and the others go by their suffix.
 */
export class LongTestsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const seconds = recordedSeconds()
    const length = ({ moduleId }: TestSpecification) => {
      const file = relative(this.ctx.config.root, moduleId)
      return seconds.get(file) ?? guess(file)
    }
    return (await super.sort(files)).toSorted((one, other) => length(other) - length(one))
  }
}

function guess(file: string): number {
  if (longFiles.includes(file)) return 200 - longFiles.indexOf(file)
  const rank = suffixes.findIndex((suffix) => file.includes(`.${suffix}.`))
  return rank === -1 ? 0 : 10 + suffixes.length - rank
}

function recordedSeconds(): Map<string, number> {
  const path = join(import.meta.dirname, '../../bench/results/tests.json')
  let text = ''
  try {
    text = readFileSync(path, 'utf8')
  } catch {}
  const record = parseJson(text)
  const files = isRecord(record) && Array.isArray(record.files) ? record.files.filter(isRecord) : []
  return new Map(files.map(({ file, wallSeconds }) => [String(file), Number(wallSeconds)]))
}
