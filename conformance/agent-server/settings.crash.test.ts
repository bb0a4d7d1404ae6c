import { expect, test } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'

interface Settings {
  readonly misc_settings: { readonly count?: number }
  readonly conversation_settings: { readonly max_iterations: number }
}

test('an acknowledged change survives a kill, and no change is partial', async () => {
  await using server = await OwnAgentServer.open()
  let acknowledged = -1
  for (let round = 0; round < 3; round++) {
    const { api } = server
    const { body } = await api.requestJson<Settings>('/api/settings')
    const found = body.misc_settings.count ?? -1
    expect(found).toBeGreaterThanOrEqual(acknowledged)
    expect(body.conversation_settings.max_iterations).toBe(found === -1 ? 500 : found + 1)
    const killed = new Promise<void>((resolve) => {
      setTimeout(() => void server.stop('SIGKILL').then(() => resolve()), 300 + 150 * round)
    })
    for (let count = found + 1; ; count++) {
      const misc_settings_diff = { count }
      const conversation_settings_diff = { max_iterations: count + 1 }
      const change = { misc_settings_diff, conversation_settings_diff }
      const answer = await api.sendJson('PATCH', '/api/settings', change).catch(() => undefined)
      if (answer?.status !== 200) break
      acknowledged = count
    }
    await killed
    await server.start()
  }
  expect(acknowledged).toBeGreaterThan(3)
})
