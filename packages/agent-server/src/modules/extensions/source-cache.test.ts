import { hash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Source } from '@slipway/agent'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { SourceCache } from './source-cache.ts'

test('an entry of the index is used where all of it is valid', async () => {
  using directory = temporaryDirectory()
  const url = `file://${directory.path}/none`
  const key = hash('sha256', JSON.stringify([url, ''])).slice(0, 32)
  const commit = 'a'.repeat(40)
  const entry = { key, ref: 'main', commit, fetchedAt: 1_000 }
  mkdirSync(join(directory.path, key, commit), { recursive: true })
  mkdirSync(join(directory.path, key, 'short'))
  const find = async (entries: readonly unknown[]) => {
    writeFileSync(join(directory.path, 'fetched.json'), JSON.stringify(entries))
    await using cache = new SourceCache({
      ...{ directory: directory.path, environment: {}, keepsAllCommits: true, retryMs: 0 },
      ...{ log: () => {}, now: () => 1_000 },
    })
    const source = { kind: 'git', url, ref: 'main' } as Source
    return await cache.get(source, 0, new AbortController().signal)
  }
  expect(await find(['x', entry])).toMatchObject({ directory: join(directory.path, key, commit), commit })
  for (const changed of [{ commit: [commit] }, { commit: 'short' }, { fetchedAt: '1000' }])
    expect(await find([{ ...entry, ...changed }]), JSON.stringify(changed)).toHaveProperty('issue')
})
