import { executionStatus, Problem } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { type Command, transition, transitions } from './status.ts'

const verbs: readonly Command[] = ['run', 'send', 'accept', 'reject', 'pause', 'interrupt']

/**
 * The table as it is promised, one line a status: run, send, accept, reject, pause, interrupt. `-` stays, `!`
 * is refused.
 */
const table = `
  idle                      running  -     -        -     paused  paused
  running                   !        -     -        -     paused  paused
  paused                    running  -     -        -     -       -
  waiting_for_confirmation  running  idle  running  idle  -       -
  finished                  -        idle  -        -     -       -
  error                     running  -     -        -     -       -
  stuck                     running  idle  -        -     -       -
  deleting                  !        !     !        !     !       !
`

const rows = table
  .trim()
  .split('\n')
  .map((line) => line.trim().split(/\s+/))

test('every status has a line in the table', () => {
  expect(rows.map(([status]) => status).sort()).toEqual([...executionStatus.options].sort())
})

for (const [status = '', ...cells] of rows) {
  for (const [index, verb] of verbs.entries()) {
    const cell = cells[index]
    test(`${verb} in ${status} leads to ${cell}`, () => {
      const from = executionStatus.parse(status)
      if (cell === '!') expect(() => transition(from, verb)).toThrow(Problem)
      else expect(transition(from, verb)).toBe(cell === '-' ? undefined : cell)
    })
  }
}

test('no verb leads to a status that only the loop or the server sets', () => {
  const reached = new Set(Object.values(transitions).flatMap((row) => Object.values(row)))
  for (const status of ['finished', 'error', 'stuck', 'waiting_for_confirmation', 'deleting'] as const) {
    expect(reached.has(status)).toBe(false)
  }
})
