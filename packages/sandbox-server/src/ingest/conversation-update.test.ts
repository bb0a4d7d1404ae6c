import type { AppConversationRow } from '@slipway/storage/control-plane'
import { expect, test } from 'vitest'
import { applyConversationInfo } from './conversation-update.ts'

const report = (model: string) => ({ execution_status: 'finished', agent: { llm: { model } } })

test('a report from before a switch of the model does not undo it, and a later one counts', () => {
  const members = { llm_model: 'x/new', switched_from: 'x/old' }
  const row = { title: null, status: 'idle', members: JSON.stringify(members) } as AppConversationRow
  const late = applyConversationInfo(row, report('x/old'))
  expect(JSON.parse(late.members)).toMatchObject(members)
  const next = applyConversationInfo({ ...row, ...late }, report('x/new'))
  expect(JSON.parse(next.members)).toMatchObject({ llm_model: 'x/new' })
  // The agent server itself went back.
  const back = applyConversationInfo({ ...row, ...next }, report('x/old'))
  expect(JSON.parse(back.members)).toMatchObject({ llm_model: 'x/old' })
})
