import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentDriver } from '../../support/agent-driver.ts'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { MockProvider } from '../../support/mock-provider.ts'

const waiting = { timeout: 60_000, interval: 50 }

/** A model that answers when the test says so. */
async function openPatientModel() {
  const provider = await MockProvider.open()
  const answer = Promise.withResolvers<void>()
  const reply: MockProvider['replies'][number] = async (response, request) => {
    await answer.promise
    provider.sendReply(response, request, { text: 'An answer.' })
  }
  provider.replies = [reply]
  provider.replyWithoutTools = reply
  return { provider, answer: () => answer.resolve() }
}

test('a stop lets commands, chats and side questions finish, and ends streams at once', {
  timeout: 120_000,
}, async () => {
  await using server = await OwnAgentServer.open()
  const model = await openPatientModel()
  await using provider = model.provider
  const driver = new AgentDriver({ api: server.api, directory: server.directory })
  const llm = provider.llm('chat')
  const { id } = await driver.create({ llm })
  expect((await server.api.sendJson('POST', '/api/profiles/slow', { llm })).status).toBeLessThan(300)
  const started = join(server.directory, 'started')
  const go = join(server.directory, 'go')
  const command = `touch ${started}; until [ -e ${go} ]; do sleep 0.05; done; echo finished`
  const bash = server.api.sendJson('POST', '/api/bash/execute_bash_command', { command })
  const question = driver.post(id, 'ask_agent', { question: 'How is it?' })
  const messages = [{ role: 'user', content: 'Hi' }]
  const chat = server.api.sendJson('POST', '/v1/chat/completions', { model: 'openhands_slow', messages })
  const stream = await server.api.fetch(`/api/conversations/${id}/events/stream`)
  await expect.poll(() => existsSync(started), waiting).toBe(true)
  await expect.poll(() => provider.requests.length, waiting).toBeGreaterThan(1)
  const stopped = server.stop()
  await stream.text()
  writeFileSync(go, '')
  model.answer()
  expect(await bash).toMatchObject({ status: 200, body: { stdout: expect.stringContaining('finished') } })
  expect(await question).toMatchObject({ status: 200 })
  expect(await chat).toMatchObject({ status: 200 })
  expect(await stopped).toBe(0)
})
