import { PassThrough } from 'node:stream'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { createLogger, errorStack } from './logger.ts'

function logged(
  level: 'debug' | 'info' | undefined,
  write: (log: ReturnType<typeof createLogger>) => void,
): string {
  const stream = new PassThrough()
  write(createLogger(stream, level))
  return String(stream.read() ?? '')
}

test('a line is JSON with level, time, message and members', () => {
  const line = logged('info', (log) => log('warn', 'careful', { port: 8000 }))
  expect(line.endsWith('\n')).toBe(true)
  expect(JSON.parse(line)).toEqual({
    level: 'warn',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    msg: 'careful',
    port: 8000,
  })
})

test('in a terminal a line is text, without what moves the terminal', () => {
  const stream = Object.assign(new PassThrough(), { isTTY: true })
  const log = createLogger(stream)
  const audit = { audit: true, method: 'POST', route: '/api/conversations', status: 201, request_id: 'a' }
  log('info', 'audit', audit)
  log('debug', 'nothing')
  log('warn', 'careful', { port: 8000, api_key: 'hidden', name: '\u001b[2Jx' })
  expect(String(stream.read())).toMatch(
    /^\d\d:\d\d:\d\d POST \/api\/conversations 201\n\d\d:\d\d:\d\d warn careful port=8000 api_key=\*{10} name=�\[2Jx\n$/,
  )
})

test('a line below the level is not written', () => {
  expect(logged(undefined, (log) => log('debug', 'nothing'))).toBe('')
  expect(logged('debug', (log) => log('debug', 'something'))).toContain('something')
})

test('members named like a secret are redacted, at any depth and in any case', () => {
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
  const line = logged('info', (log) => log('info', 'x', members))
  expect(line).not.toContain('hidden')
  expect(JSON.parse(line)).toMatchObject({ tokens: 12, name: 'shown', value: '**********' })
  expect(members.Authorization).toBe('hidden')
})

test('an error is logged with its causes and without other properties', () => {
  const error = Object.assign(new Error('outer', { cause: new Error('inner') }), { body: 'hidden' })
  expect(errorStack(error)).toMatch(/^Error: outer\n[\s\S]*\ncaused by: Error: inner\n/)
  expect(errorStack(error)).not.toContain('hidden')
  expect(errorStack('a text')).toBe('string thrown')
})
