import type { AppConversationRow } from '@slipway/storage/control-plane'
import { expect, test } from 'vitest'
import { applyReport } from './apply-report.ts'

const hour = 3_600_000_000
const noon = Date.parse('2026-06-01T12:00:00Z') * 1000

function row(): AppConversationRow {
  return { title: null, status: 'idle', members: '{}' } as AppConversationRow
}

function report(second: number, model: string, more: object = {}) {
  const updated_at = new Date(noon / 1000 + second * 1000).toISOString()
  return { execution_status: 'running', updated_at, agent: { llm: { model } }, ...more }
}

test('of reports in any order the newest counts, and usage never falls', () => {
  const usage = (tokens: number) => ({ metrics: { accumulated_token_usage: { prompt_tokens: tokens } } })
  const reports = [
    report(1, 'x/old', { title: 'First', tags: { state: 'one' }, ...usage(10) }),
    report(2, 'x/new', { title: 'Second', tags: { state: 'two' }, execution_status: 'paused', ...usage(5) }),
    report(3, 'x/old', {
      title: 'Third',
      tags: { state: 'three' },
      execution_status: 'finished',
      ...usage(7),
    }),
  ]
  for (const order of ['012', '021', '102', '120', '201', '210']) {
    let state = row()
    for (const index of order)
      state = { ...state, ...applyReport(state, reports[Number(index)] ?? {}, noon + hour) }
    expect(state, order).toMatchObject({ title: 'Third', status: 'finished' })
    expect(JSON.parse(state.members), order).toMatchObject({
      llm_model: 'x/old',
      tags: { state: 'three' },
      metrics: { accumulated_token_usage: { prompt_tokens: 10 } },
    })
  }
})

test.each([
  ['from a clock that was ahead', { updated_at: '2099-01-01T00:00:00Z' }],
  ['without a time', { updated_at: undefined }],
  ['with a time that is none', { updated_at: 'yesterday' }],
])('a report %s counts, and so does the next one', (_, more) => {
  const first = { ...row(), ...applyReport(row(), { ...report(0, 'x/one'), ...more }, noon) }
  expect(JSON.parse(first.members)).toMatchObject({ llm_model: 'x/one' })
  const next = applyReport(first, report(1, 'x/two'), noon + hour)
  expect(JSON.parse(next.members)).toMatchObject({ llm_model: 'x/two' })
})
