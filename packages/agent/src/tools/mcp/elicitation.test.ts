import { expect, test } from 'vitest'
import { answerElicitation } from './elicitation.ts'

test('a question that is too large is declined without the user', async () => {
  let asked = 0
  const ask = async () => {
    asked++
    return { action: 'cancel' } as const
  }
  const answer = async (size: number) => {
    const description = 'd'.repeat(size)
    const requestedSchema = { type: 'object', properties: { name: { type: 'string', description } } }
    return await answerElicitation('s', { message: 'Who?', requestedSchema }, ask, AbortSignal.any([]))
  }
  expect([await answer(31_000), asked]).toEqual([{ action: 'cancel' }, 1])
  expect([await answer(32_000), asked]).toEqual([{ action: 'decline' }, 1])
})
