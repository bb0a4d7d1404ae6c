import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isDirectory } from './is-directory.ts'

test('a directory and a link to one are directories; a file and a missing path are not', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-shared-'))
  try {
    writeFileSync(join(directory, 'file'), '')
    symlinkSync(directory, join(directory, 'link'))
    const paths = [directory, join(directory, 'link'), join(directory, 'file'), join(directory, 'missing')]
    expect(await Promise.all(paths.map(isDirectory))).toEqual([true, true, false, false])
  } finally {
    rmSync(directory, { recursive: true })
  }
})
