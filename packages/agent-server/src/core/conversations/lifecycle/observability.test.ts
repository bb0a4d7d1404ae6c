import { startConversationRequest } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { withObservabilityHeaders } from './observability.ts'

const request = startConversationRequest.parse({
  agent_profile_id: crypto.randomUUID(),
  workspace: { working_dir: '/' },
  observability_span_name: 'mine',
  observability_tags: ['a'],
})

test.each([
  ['span-name', 'no name at all'],
  ['tags', 'x'.repeat(201)],
  ['metadata', '[1]'],
  ['parent-span-context', 'x'.repeat(9_000)],
])('a header %s that is not valid is refused, also beside a member of the body', (name, value) => {
  const header = (asked: string) => (asked.endsWith(`-${name}`) ? value : undefined)
  expect(() => withObservabilityHeaders(request, header)).toThrow()
})

test('a valid header fills what the body leaves out', () => {
  const header = (asked: string) => (asked.endsWith('-span-name') ? 'theirs' : undefined)
  expect(withObservabilityHeaders(request, header).observability_span_name).toBe('mine')
  const bare = { ...request, observability_span_name: undefined }
  expect(withObservabilityHeaders(bare, header).observability_span_name).toBe('theirs')
})
