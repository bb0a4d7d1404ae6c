import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { openSessionKey } from './session-key.ts'

test('a key that a person wrote is taken without a line feed, unless it may be a part of a made one', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'session.key')
  const open = async () => (await openSessionKey(directory.path, () => {})).key.reveal()
  const made = await open()
  expect(readFileSync(path, 'utf8')).toBe(`${made}\n`)
  const own = ['0123456789abcdef0123456789abcdef', 'a-key-of-my-own-server', `My-Own-${'k'.repeat(57)}`, made]
  for (const key of own) {
    writeFileSync(path, key, { mode: 0o600 })
    expect(await open()).toBe(key)
  }
  for (const size of [16, 22, 42]) {
    // Random keys have letters of both cases; those of this test always do.
    const part = `aB${made.slice(2, size)}`
    writeFileSync(path, part)
    await expect(open()).rejects.toThrow(`${path} may be cut`)
    writeFileSync(path, `${part}\n`)
    expect(await open()).toBe(part)
  }
  writeFileSync(path, 'too-short\n')
  await expect(open()).rejects.toThrow('is damaged')
})
