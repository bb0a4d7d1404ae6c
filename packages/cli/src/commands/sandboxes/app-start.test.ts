import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { taskLine } from './app-start.ts'

test.each([
  ['WORKING', null, '   2.1 s  WORKING\n'],
  ['WAITING_FOR_SANDBOX', null, '   2.1 s  WAITING_FOR_SANDBOX\n'],
  ['WAITING_FOR_SANDBOX', 's-1', '   2.1 s  WAITING_FOR_SANDBOX  sandbox s-1\n'],
  ['READY', 's-1', '   2.1 s  READY\n'],
] as const)('the state %s in the sandbox %s is a line', (status, sandbox_id, line) => {
  expect(stripVTControlCharacters(taskLine(2_149, { status, sandbox_id }))).toBe(line)
})
