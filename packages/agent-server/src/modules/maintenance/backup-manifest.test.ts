import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readManifest, writeManifest } from './backup-manifest.ts'

test('a manifest with a changed or missing byte anywhere is damaged', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-manifest-'))
  try {
    expect(await readManifest(directory)).toBeUndefined()
    await writeManifest(directory, { format: 1, steps: [] })
    expect(await readManifest(directory)).toEqual({ format: 1, steps: [] })
    const path = join(directory, 'backup.json')
    const bytes = await readFile(path)
    for (let at = 0; at < bytes.length - 1; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 16
      for (const wrong of [changed, bytes.subarray(0, at)]) {
        await writeFile(path, wrong)
        await expect(readManifest(directory), `byte ${at}`).rejects.toThrow(/is damaged/)
      }
    }
  } finally {
    await rm(directory, { recursive: true })
  }
})
