import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { receivedEvent } from '../../testing/fixtures.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { DurablePoint } from '../database/wal/durable-point.ts'
import { openStorage } from '../storage.ts'
import { TextIndex } from './text-index.ts'

const id = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'

test('requests before and during a pause are answered after it', async () => {
  using directory = temporaryDirectory()
  const [logPath, indexPath] = [join(directory.path, 'log.db'), join(directory.path, 'index.db')]
  {
    await using storage = await openStorage({ directory: directory.path })
    await storage.conversations.create({ id })
    await storage.log.append(id, [receivedEvent('a', 1_000, { kind: 'MessageEvent', text: 'a text' })])
  }
  rmSync(indexPath, { force: true })
  const durable = new DurablePoint()
  const text = new TextIndex({ logPath, indexPath, durable, log: () => {} })
  // What is not durable is not indexed: this one cannot be answered before the pause.
  durable.begin()
  const indexed = text.waitUntilIndexed()
  await text.areIndexesRight('order', { ordinal: 1, head: 1 })
  await text.pause()
  const checked = text.areIndexesRight('ids', { ordinal: 1, head: 1 })
  text.resume()
  durable.reach()
  expect(await Promise.all([indexed, checked])).toEqual([undefined, true])
  await text.close()
})

test('indexes are compared in steps, between which other requests are answered', async () => {
  using directory = temporaryDirectory()
  const [logPath, indexPath] = [join(directory.path, 'log.db'), join(directory.path, 'index.db')]
  await (await openStorage({ directory: directory.path }))[Symbol.asyncDispose]()
  const text = new TextIndex({ logPath, indexPath, durable: new DurablePoint(), log: () => {} })
  const answered: string[] = []
  // All three come before the thread has started.
  await Promise.all([
    text.areIndexesRight('order', { ordinal: 1, head: 100_000 }).then(() => answered.push('check')),
    text.areIndexesRight('ids', { ordinal: 1, head: 1 }).then(() => answered.push('second check')),
    text.waitUntilIndexed().then(() => answered.push('other')),
  ])
  expect(answered).toEqual(['other', 'check', 'second check'])
  await text.close()
})

test('requests that wait for the end of a pause are refused when the index is closed', async () => {
  using directory = temporaryDirectory()
  await (await openStorage({ directory: directory.path }))[Symbol.asyncDispose]()
  const [logPath, indexPath] = [join(directory.path, 'log.db'), join(directory.path, 'index.db')]
  const text = new TextIndex({ logPath, indexPath, durable: new DurablePoint(), log: () => {} })
  await text.pause()
  const indexed = expect(text.waitUntilIndexed()).rejects.toThrow('closed')
  await text.close()
  await indexed
})
