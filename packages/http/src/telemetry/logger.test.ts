import { PassThrough } from 'node:stream'
import { Secret } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { logTo, stackOf } from './logger.ts'

function written(
  level: 'debug' | 'info' | undefined,
  write: (log: ReturnType<typeof logTo>) => void,
): string {
  const stream = new PassThrough()
  write(logTo(stream, level))
  return String(stream.read() ?? '')
}

test('a line is JSON with level, time, message and members', () => {
  const line = written('info', (log) => log('warn', 'careful', { port: 8000 }))
  expect(line.endsWith('\n')).toBe(true)
  expect(JSON.parse(line)).toEqual({
    level: 'warn',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    msg: 'careful',
    port: 8000,
  })
})

test('a line below the level is not written', () => {
  expect(written(undefined, (log) => log('debug', 'nothing'))).toBe('')
  expect(written('debug', (log) => log('debug', 'something'))).toContain('something')
})

test('no member named like a secret shows its text, at any depth and in any case', () => {
  const members = {
    Authorization: 'hidden',
    list: [{ deep: { API_KEY: 'hidden', Cookie: ['hidden'] } }],
    session: { id: 'hidden' },
    user_password: 'hidden',
    clientSecret: 'hidden',
    encrypted_content: 'hidden',
    credentials: 'hidden',
    value: new Secret('hidden'),
    tokens: 12,
    name: 'shown',
  }
  const line = written('info', (log) => log('info', 'x', members))
  expect(line).not.toContain('hidden')
  expect(JSON.parse(line)).toMatchObject({ tokens: 12, name: 'shown', value: '**********' })
  expect(members.Authorization).toBe('hidden')
})

test('an error is told with its causes and without what hangs on it', () => {
  const error = Object.assign(new Error('outer', { cause: new Error('inner') }), { body: 'hidden' })
  expect(stackOf(error)).toMatch(/^Error: outer\n[\s\S]*\ncaused by: Error: inner\n/)
  expect(stackOf(error)).not.toContain('hidden')
  expect(stackOf('a text')).toBe('string thrown')
})
