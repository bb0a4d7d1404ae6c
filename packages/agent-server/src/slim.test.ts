import { expect, test } from 'vitest'
import { slim } from './slim.ts'

const event = (observation: object) =>
  Buffer.from(JSON.stringify({ id: 'a', kind: 'ObservationEvent', observation }))

test('bulky members go first and the rest stays whole', () => {
  const small = JSON.parse(
    slim(event({ screenshot_data: 'x'.repeat(5000), content: [{ text: 'seen' }] }), 4000).toString(),
  )
  expect(small).toEqual({
    id: 'a',
    kind: 'ObservationEvent',
    observation: { screenshot_data: null, content: [{ text: 'seen' }] },
  })
})

test('a long text is cut with a note and the frame is below the limit, whatever its characters cost', () => {
  for (const character of ['x', '"', '\u0001', '😀']) {
    const frame = slim(event({ content: [{ type: 'text', text: character.repeat(20_000) }] }), 10_000)
    expect(frame.length).toBeLessThan(10_000)
    expect(JSON.parse(frame.toString()).observation.content[0].text).toMatch(
      /characters are left out of this frame/,
    )
  }
})

test('long lists lose their ends when texts are not what makes an event large', () => {
  const ids = Array.from({ length: 20_000 }, (_, i) => i)
  const token = { id: 'a', kind: 'TokenEvent', prompt_token_ids: ids, response_token_ids: [1, 2] }
  const frame = slim(Buffer.from(JSON.stringify(token)), 10_000)
  expect(frame.length).toBeLessThan(10_000)
  const slimmed = JSON.parse(frame.toString())
  expect(slimmed).toMatchObject({ id: 'a', kind: 'TokenEvent', response_token_ids: [1, 2] })
  expect(slimmed.prompt_token_ids).toEqual(ids.slice(0, slimmed.prompt_token_ids.length))
})
