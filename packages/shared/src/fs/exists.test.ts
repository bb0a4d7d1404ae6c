import { constants, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { exists } from './exists.ts'

test('a path exists, can be executed, or is missing', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-shared-'))
  try {
    const file = join(directory, 'file')
    writeFileSync(file, '', { mode: 0o600 })
    expect(await exists(file)).toBe(true)
    expect(await exists(file, constants.X_OK)).toBe(false)
    expect(await exists(process.execPath, constants.X_OK)).toBe(true)
    for (const path of [join(directory, 'missing'), join(file, 'below')])
      expect(await exists(path)).toBe(false)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
