import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../testing/temporary-directory.ts'

test('close settles pending calls when nothing else keeps the process alive', { timeout: 180_000 }, () => {
  using directory = temporaryDirectory()
  const writer = fileURLToPath(new URL('./testing/close-writer.ts', import.meta.url))
  expect(execFileSync(process.execPath, [writer, directory.path], { encoding: 'utf8' })).toBe('closed\n')
})
