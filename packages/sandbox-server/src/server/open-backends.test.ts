import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Isolation } from '../backends/backend.ts'
import { readConfig } from '../config/config.ts'
import { assertIsolated, openBackends } from './open-backends.ts'

test('without isolation the server refuses to start and says what to install', async () => {
  const backend = (kind: Isolation['kind']) => ({
    isolation: async () => ({ kind, enforced: [], notes: ['Bubblewrap is not installed.'] }),
  })
  await expect(assertIsolated(backend('none'))).rejects.toThrow(
    /not be isolated.*not installed.*Install bubblewrap.*SLIPWAY_ISOLATION=none/,
  )
  await assertIsolated(backend('namespaces'))
})

test('SLIPWAY_ISOLATION=none accepts ordinary processes', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-backends-'))
  try {
    const backends = await openBackends(readConfig({ SLIPWAY_ISOLATION: 'none' }), {
      directory,
      socketDirectory: directory,
      ledgerId: 'ledger-of-this-test-0123',
      agent: { command: [process.execPath], readable: [] },
      log: () => {},
    })
    expect((await backends.get('process')?.isolation())?.kind).toBe('none')
  } finally {
    rmSync(directory, { recursive: true })
  }
})
