import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { RepositoryConsents, RepositoryVerdict } from '../../repository/repository-access.ts'
import { ConversationFixtures, FakeModel, type TestConversation } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(async () => {
  await fixtures[Symbol.asyncDispose]()
})

const hooks = JSON.stringify({ session_start: [{ hooks: [{ command: 'echo of the repository' }] }] })

async function createWithHooks(repositoryConsents: RepositoryConsents): Promise<TestConversation> {
  const life = await fixtures.create({ model: new FakeModel().open, deps: { repositoryConsents } })
  await mkdir(join(life.workspace, '.openhands'), { recursive: true })
  await writeFile(join(life.workspace, '.openhands/hooks.json'), hooks)
  return life
}

const always = (verdict: RepositoryVerdict): RepositoryConsents => ({
  check: async () => ({ id: 'c', verdict }),
})

test('a repository that nobody has decided about is left out, and the log says so once', async () => {
  const life = await createWithHooks(always('skipped'))
  await life.sendAndWait('Hello')
  await life.sendAndWait('Again')
  const keys = (await life.eventSummary()).filter((line) => /hook_execution|repository_consent/.test(line))
  expect(keys).toEqual(['repository_consent'])
  expect(life.status).toBe('finished')
})

test.each([
  ['allowed', ['repository_consent', 'hook_execution']],
  ['denied', ['repository_consent']],
  ['trusted', ['hook_execution']],
] as const)('a repository that is %s', async (verdict, expected) => {
  const life = await createWithHooks(always(verdict))
  await life.sendAndWait('Hello')
  const keys = (await life.eventSummary()).filter((line) => /hook_execution|repository_consent/.test(line))
  expect(keys).toEqual(expected)
})

test('a run waits for a decision: neither an acceptance nor another run goes past it', async () => {
  let verdict: RepositoryVerdict = 'pending'
  const life = await createWithHooks({ check: async () => ({ id: 'c', verdict }) })
  await life.sendAndWait('Hello')
  expect(life.status).toBe('waiting_for_confirmation')
  expect(life.conversation.awaitedConsent).toBe('c')
  await life.conversation.resolveConfirmation({ accept: true, reason: '' })
  expect(life.status).toBe('waiting_for_confirmation')
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('waiting_for_confirmation')
  verdict = 'allowed'
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('finished')
  const keys = (await life.eventSummary()).filter((line) => /hook_execution|repository_consent/.test(line))
  expect(keys).toEqual(['repository_consent', 'repository_consent', 'hook_execution'])
})

test('a decision in the moment before the run begins to wait is not missed', async () => {
  let checks = 0
  const life = await createWithHooks({
    check: async () => ({ id: 'c', verdict: ++checks > 2 ? 'allowed' : 'pending' }),
  })
  await life.sendAndWait('Hello')
  expect(life.status).toBe('finished')
})
