import { onTestFinished, test } from 'vitest'
import { expectArchive, expectFork } from '../support/sandbox-server/lifecycle.ts'
import { createUser, openSandboxServer } from '../support/sandbox-server/user.ts'

/** Archives and forks of process sandboxes; other backends have the same in their tests. */

const limit = { timeout: 300_000 }

async function open() {
  const fixture = await openSandboxServer()
  onTestFinished(() => fixture[Symbol.asyncDispose](), 120_000)
  return await createUser(fixture.server)
}

test('a conversation is forked with its files while it works', limit, async () => {
  await expectFork(await open())
})

test('an archived conversation continues in another sandbox', limit, async () => {
  await expectArchive(await open())
})
