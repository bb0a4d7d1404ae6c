import * as protocol from '@slipway/protocol'
import { expect, test } from 'vitest'
import { messageTexts } from './message-texts.ts'

test('the texts of a message are those that the protocol says', () => {
  const contents = [
    undefined,
    null,
    'plain',
    ['a', { text: 'b' }, { text: 1 }, { image_urls: ['x'] }, null, ['c']],
    { text: 'x' },
    [],
  ]
  const events: unknown[] = [
    null,
    1,
    [],
    {},
    { kind: 'MessageEvent' },
    { kind: 'ActionEvent', llm_message: { content: 'x' } },
  ]
  for (const content of contents) {
    for (const extended_content of contents) {
      for (const reasoning_content of [undefined, null, 'why', 5]) {
        events.push({ kind: 'MessageEvent', llm_message: { content, reasoning_content }, extended_content })
      }
    }
  }
  for (const event of events) expect(messageTexts(event)).toEqual(protocol.messageTexts(event))
})
