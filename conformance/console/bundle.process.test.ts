import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { weighBundle } from '../../bench/support/console-bundle.ts'

test('no part of the console weighs more than its budget', { timeout: 300_000 }, async () => {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-bundle-'))
  try {
    const parts = await weighBundle(join(directory, 'bundle'))
    expect(parts.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['first load', 'conversation/page.tsx', 'ui/markdown.tsx', 'ui/highlight.ts']),
    )
    expect(parts.filter(({ bytes, budget }) => bytes > budget)).toEqual([])
    expect(parts.every(({ bytes }) => bytes > 0)).toBe(true)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
})
