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
