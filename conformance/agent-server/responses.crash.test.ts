import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'

interface Resource {
  readonly id: string
  readonly status: string
  readonly output: readonly unknown[]
}

test('a kill in the middle of a response leaves one that continues, and nothing of one that is not stored', async () => {
  await using server = await OwnAgentServer.open()
  const send = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${server.url}${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return (await response.json()) as Resource
  }
  const script = [{ text: 'At last.', delay_ms: 1_500 }, { text: 'Next.' }]
  await send('POST', '/api/profiles/slow', { llm: { model: 'scripted/x', script } })
  const request = { model: 'openhands_slow', input: 'Go.' }
  const { id } = await send('POST', '/v1/responses', { ...request, background: true })
  void send('POST', '/v1/responses', { ...request, store: false }).catch(() => undefined)
  const count = async () => Number(await send('GET', '/api/conversations/count'))
  while ((await count()) < 2) await sleep(20)
  await server.restart('SIGKILL')
  expect(await count()).toBe(1)
  const statuses = new Set<string>()
  let view = await send('GET', `/v1/responses/${id}`)
  while (view.status === 'in_progress') {
    statuses.add(view.status)
    await sleep(50)
    view = await send('GET', `/v1/responses/${id}`)
  }
  expect([...statuses, view.status]).toEqual(['in_progress', 'completed'])
  expect(view.output).toHaveLength(1)
  const next = await send('POST', '/v1/responses', { ...request, previous_response_id: id })
  expect(next.output).toMatchObject([{ content: [{ text: 'Next.' }] }])
})
