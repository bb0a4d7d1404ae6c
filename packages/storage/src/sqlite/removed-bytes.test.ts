import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { conversation, otherConversation } from '../testing/fixtures.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { openControlPlaneStore } from './control-plane/control-plane-store.ts'
import { openStorage } from './storage.ts'

const needle = 'northwind salaries'
const removedImage = Buffer.concat([Buffer.from(`${needle} as an image`), randomBytes(40_000)])

/** Names of the files of a directory that have the bytes. */
function filesWith(directory: string, bytes: string): string[] {
  return readdirSync(directory)
    .filter((name) => readFileSync(join(directory, name)).includes(bytes))
    .sort()
}

function message(text: string, image?: Buffer) {
  const image_urls = image === undefined ? [] : [`data:image/png;base64,${image.toString('base64')}`]
  const content = [
    { type: 'text', text },
    { type: 'image', image_urls },
  ]
  return { kind: 'MessageEvent', source: 'user', llm_message: { role: 'user', content } } as const
}

test('no file has bytes of a removed conversation', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  await storage.conversations.create({ id: conversation, title: `Title of ${needle}` })
  await storage.conversations.create({ id: otherConversation })
  for (let turn = 0; turn < 20; turn++) {
    await storage.log.append(conversation, [message(`${needle} ${turn} ${'long '.repeat(turn * 100)}`)])
    await storage.log.append(otherConversation, [message(`something else ${turn}`)])
  }
  await storage.log.append(conversation, [message(needle, removedImage)])
  await storage.waitUntilIndexed()
  expect(filesWith(directory.path, needle)).toEqual(expect.arrayContaining(['index.db-wal', 'log.db-wal']))

  await storage.conversations.remove(conversation)
  await storage.overwriteRemoved()
  expect(filesWith(directory.path, needle)).toEqual([])
  expect(filesWith(directory.path, 'something else')).toEqual(['index.db', 'log.db'])
  expect(await storage.log.read(otherConversation, 0, 100)).toHaveLength(20)
})

test('no file has bytes of removed rows of the control plane', async () => {
  using directory = temporaryDirectory()
  await using store = await openControlPlaneStore({ directory: directory.path })
  const user = { name: needle, email: null, org: null, is_admin: false, daily_conversation_limit: null }
  for (const id of ['ann', 'ben']) await store.users.addUser({ id, ...user, created_at: 1 })
  await store.users.updateUser('ben', { name: 'Ben' })
  await store.users.removeUser('ann')
  expect(filesWith(directory.path, needle)).toEqual(['control.db-wal'])
  await store.overwriteRemoved()
  expect(filesWith(directory.path, needle)).toEqual([])
  expect(filesWith(directory.path, 'Ben')).toEqual(['control.db'])
})
