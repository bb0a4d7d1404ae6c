import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openAgentFixture } from '../support/agent-fixture.ts'
import type { ApiEvent } from '../support/agent-server-api.ts'
import { findPython, pythonEnv } from '../support/python.ts'

const { api, directory } = await openAgentFixture()
const python = findPython('atif')
if (python === undefined) console.warn('SKIPPED: .ci/python atif has not installed the readers of ATIF')

/** The sample, an empty log, and the recorded logs of other writers where there are some. */
const folder = process.env.SLIPWAY_DATA
const recorded = folder === undefined ? [] : readdirSync(folder).filter((name) => name.endsWith('.jsonl'))
const logs = [
  readFileSync(resolve(import.meta.dirname, '../../examples/sample-log/sample.jsonl')),
  Buffer.from(''),
  Buffer.from('{"kind":"Odd","id":"x","timestamp":"noon"}\n{"kind":"ActionEvent","id":"y"}\n'),
  ...recorded.map((name) => readFileSync(join(String(folder), name))),
]

test.skipIf(python === undefined)(
  'exports in ATIF are valid to atif and harbor, with every call and result',
  { timeout: 120_000 },
  async () => {
    const paths: string[] = []
    const expected: object[] = []
    for (const [at, log] of logs.entries()) {
      const id = await api.import(log, '?unknown=keep')
      const answer = await api.fetch(`/api/conversations/${id}/export?format=atif`)
      paths.push(join(directory, `${at}.atif.json`))
      await writeFile(String(paths.at(-1)), await answer.text())
      const lines = log.toString().split('\n').filter(Boolean)
      const kinds = lines.map((line): ApiEvent => JSON.parse(line)).map(({ kind }) => kind)
      const count = (pattern: RegExp) => kinds.filter((kind) => pattern.test(kind)).length
      const results = count(/^(ObservationEvent|AgentErrorEvent|UserRejectObservation)$/)
      expected.push({ valid: true, errors: [], calls: count(/^ActionEvent$/), results })
    }
    const program = resolve(import.meta.dirname, 'python/atif_check.py')
    const env = pythonEnv(String(python), directory)
    const { stdout } = await promisify(execFile)(String(python), [program, ...paths], { env })
    const found = stdout.trimEnd().split('\n')
    expect(found.map((line) => JSON.parse(line))).toEqual(expected)
  },
)
