import { expect, test } from 'vitest'
import { createUser, openSandboxServer, textModel } from '../support/sandbox-server/user.ts'

/** The control plane from outside; its sandboxes are isolated where this machine can. */

test('a conversation in a sandbox is answered, paused, resumed and read from the log of the control plane', {
  timeout: 120_000,
}, async () => {
  await using fixture = await openSandboxServer()
  const user = await createUser(fixture.server)
  await user.setModel(textModel)
  const { id, sandbox_id } = await user.createConversation()
  await user.sendMessage(id, 'A question.')
  await user.waitForMessage(id, 'Answer 0.')
  await user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/pause`)
  await user.waitForSandbox(sandbox_id, 'PAUSED')
  await user.waitForMessage(id, 'A question.')
  await user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/resume`)
  await user.waitForSandbox(sandbox_id, 'RUNNING')
  await user.sendMessage(id, 'Another question.')
  await user.waitForMessage(id, 'Answer 1.')
  expect(await user.getConversation(id)).toMatchObject({ sandbox_status: 'RUNNING' })
})
