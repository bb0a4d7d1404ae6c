import { Problem } from '@slipway/protocol/client'
import { expect, test } from 'vitest'
import { errorMessage } from './error-message.ts'

test('a refusal keeps its lines; what a file or a server has named cannot control the terminal', () => {
  const named = new Problem('bad_request', 'Cannot read a\u001b]0;title\u0007.json\r: too long\n  Next line')
  expect(errorMessage(named)).toBe('Cannot read a␛]0;title␇.json\n: too long\n  Next line')
})
