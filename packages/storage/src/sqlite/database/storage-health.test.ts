import { statfsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { StorageHealth } from './storage-health.ts'

async function readFree(directory: string): Promise<number | undefined> {
  const { metrics } = new StorageHealth(directory, () => {})
  const all = await Promise.all(metrics.map(async (metric) => await metric.get()))
  return all.find(({ name }) => name === 'slipway_storage_free_bytes')?.values[0]?.value
}

test('the metric of free space is that of the disk of the directory, and unknown where there is none', async () => {
  using directory = temporaryDirectory()
  const { blocks, bsize } = statfsSync(directory.path)
  const free = await readFree(directory.path)
  expect(free).toBeGreaterThan(0)
  expect(free).toBeLessThanOrEqual(blocks * bsize)
  expect(await readFree(join(directory.path, 'missing'))).toBeNaN()
})
