import { mkdirSync, renameSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { ConsoleSessions } from './console-sessions.ts'

test('sessions continue while their file can be neither written nor read', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'console.sessions')
  const sessions = await ConsoleSessions.open(directory.path, () => [new Secret('a-session-key')])
  const add = (name: string) => sessions.addSession('a-session-key', name, Date.now() + 60_000)
  await add('first')
  renameSync(path, `${path}.away`)
  mkdirSync(path)
  await expect(add('second')).rejects.toThrow(path)
  await expect(add('second')).rejects.toMatchObject({ code: 'conflict' })
  expect(['first', 'second'].map((key) => sessions.isSessionKey(key))).toEqual([true, false])
  rmdirSync(path)
  renameSync(`${path}.away`, path)
  await add('second')
  expect(['first', 'second'].map((key) => sessions.isSessionKey(key))).toEqual([true, true])
})
