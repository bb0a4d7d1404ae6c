import { expect, test } from 'vitest'
import { createFixture, startAndWait } from '../testing/sandboxes-fixture.ts'

test('the first failure of a step is a warning, its repetitions are for debugging', async () => {
  const at = await createFixture()
  let failures = 3
  at.backend.before = (verb) => {
    if (verb === 'start' && failures-- > 0) throw new Error('the engine is down')
  }
  const lines: unknown[] = []
  const sandboxes = await at.open({
    log: (level, message, members) => {
      if (message.startsWith('a step of a sandbox failed')) lines.push([level, members])
    },
  })
  const { id } = await startAndWait(sandboxes)
  const line = (level: string, delay_ms: number) => [
    level,
    { sandbox: id, error: 'the engine is down', delay_ms },
  ]
  expect(lines).toEqual([line('warn', 5), line('debug', 10), line('debug', 20)])
})
