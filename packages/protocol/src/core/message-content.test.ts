import { expect, test } from 'vitest'
import { sendMessageRequest, startConversationRequest } from '../agent-server/conversations/conversation.ts'
import { appSendMessageRequest } from '../sandbox-server/app-conversation.ts'
import { validationIssues } from './validation-issues.ts'

test.each([
  [{}, undefined],
  [{ content: [] }, undefined],
  [{ content: null, role: 'user' }, undefined],
  [{ text: 'hi' }, 'text'],
  [{ role: 'user', message: 'hi', run: true }, 'message'],
  [{ prompt: 'hi', content: [] }, 'prompt'],
])('a message %j is refused with what was expected and the member that may be meant', (value, member) => {
  for (const schema of [sendMessageRequest, appSendMessageRequest]) {
    const { error } = schema.safeParse(value)
    const [issue] = error === undefined ? [] : validationIssues(error, ['body'], value)
    expect(issue).toMatchObject({ loc: ['body', 'content'], type: 'missing' })
    expect(issue?.msg).toContain('A message needs content')
    if (member !== undefined) expect(issue?.msg).toContain(`\`${member}\``)
  }
})

test('other unknown members of a message are ignored, and so are those of a request', () => {
  const content = [{ type: 'text', text: 'hi' }]
  expect(sendMessageRequest.parse({ content, text: 'x', other: 1 })).not.toHaveProperty('text')
  expect(sendMessageRequest.safeParse({ extended_content: content }).success).toBe(true)
  const request = { agent_profile_id: crypto.randomUUID(), workspace: { working_dir: '/' }, other: 1 }
  expect(startConversationRequest.safeParse(request).success).toBe(true)
  expect(startConversationRequest.parse({ ...request, title: ' A title ' }).title).toBe('A title')
  expect(startConversationRequest.parse({ ...request, title: '' }).title).toBeUndefined()
})
