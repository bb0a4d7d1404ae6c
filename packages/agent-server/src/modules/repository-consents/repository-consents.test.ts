import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RepositoryCode } from '@slipway/agent'
import { Cipher } from '@slipway/storage'
import { expect, test } from 'vitest'
import { fileDocuments } from '../../testing/file-documents.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { RepositoryConsents } from './repository-consents.ts'

const code = (hash: string, repository = '/repositories/a', hooksHash?: string): RepositoryCode => ({
  repository,
  hash,
  hooksHash,
  items: [{ kind: 'hook', path: '.openhands/hooks.json', name: 'stop', command: 'true' }],
  hooks: { config: undefined, issues: [] },
  agents: { agents: [], issues: [] },
  rules: { rules: [], issues: [] },
})

async function open(directory: string, trust: 'skip' | 'ask' | 'always' = 'ask') {
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  return new RepositoryConsents({ documents: fileDocuments(directory), cipher, trust })
}

test('a decision holds for one repository and one content, also for the next process', async () => {
  using directory = temporaryDirectory()
  const consents = await open(directory.path)
  const { id, verdict } = await consents.check(code('1'))
  expect(verdict).toBe('pending')
  await consents.decide(id, 'allow')
  const later = await open(directory.path, 'skip')
  expect((await later.check(code('1'))).verdict).toBe('allowed')
  expect((await later.check(code('2'))).verdict).toBe('skipped')
  expect((await later.check(code('1', '/repositories/b'))).verdict).toBe('skipped')
  await later.revoke(id)
  expect((await later.check(code('1'))).verdict).toBe('skipped')
  await expect(later.decide('unknown', 'deny')).rejects.toMatchObject({ code: 'not_found' })
})

test('hooks that replace allowed ones wait for a decision, also where others are skipped', async () => {
  using directory = temporaryDirectory()
  const consents = await open(directory.path, 'skip')
  const first = await consents.check(code('1', '/a', 'h1'))
  expect(first.verdict).toBe('skipped')
  await consents.decide(first.id, 'allow')
  const changed = await consents.check(code('2', '/a', 'h2'))
  expect(changed.verdict).toBe('pending')
  expect((await consents.check(code('2', '/b', 'h2'))).verdict).toBe('skipped')
  await consents.decide(changed.id, 'deny')
  expect((await consents.check(code('2', '/a', 'h2'))).verdict).toBe('denied')
  await consents.revoke(first.id)
  expect((await consents.check(code('3', '/a', 'h3'))).verdict).toBe('skipped')
})

test('without questions everything is loaded but what was denied', async () => {
  using directory = temporaryDirectory()
  const consents = await open(directory.path, 'always')
  const { id } = await consents.register(code('1'))
  expect((await consents.check(code('1'))).verdict).toBe('trusted')
  await consents.decide(id, 'deny')
  expect((await consents.check(code('1'))).verdict).toBe('denied')
  expect((await consents.check(code('2'))).verdict).toBe('trusted')
})

test('many changes push out what is undecided, and no decision', async () => {
  using directory = temporaryDirectory()
  const consents = await open(directory.path)
  const { id } = await consents.register(code('decided'))
  await consents.decide(id, 'deny')
  for (let number = 0; number < 120; number++) await consents.register(code(String(number)))
  const all = await consents.list()
  expect(all).toHaveLength(101)
  expect(all.at(-1)?.decision).toBe('denied')
  expect(all[0]?.hash).toBe('119')
})

test('decisions that cannot be read count as not made', async () => {
  using directory = temporaryDirectory()
  await writeFile(join(directory.path, 'repository-consents.sealed'), 'damaged')
  const consents = await open(directory.path)
  expect((await consents.check(code('1'))).verdict).toBe('pending')
  await expect(consents.list()).rejects.toMatchObject({ code: 'conflict' })
})
