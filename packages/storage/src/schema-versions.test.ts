import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { migrations as databaseMigrations } from './postgres/database/schema.ts'
import { bashMigrations } from './sqlite/bash-events/bash-events.ts'
import { controlPlaneMigrations } from './sqlite/control-plane/schema.ts'
import { logMigrations } from './sqlite/event-log/schema.ts'

/**
 * What each version of a schema has added, as a hash: a version that somebody has is never changed. After a
 * new one, run `scripts/write-data-fixture.ts`, for `tables` by `.ci/postgres`, and add its hash.
 */
const versions = [
  {
    name: 'log',
    migrations: logMigrations,
    fixture: 'sqlite/testing/versions/log-v?.db.gz',
    hashes: [
      ...['ff31ea43cc186867', '0b50496ab3ec3eef', '47b5e4ee2a61b9c1', '6da6a1a059175f65', 'adeac0b32be0d8d5'],
      ...['a66adf2a6496b76e', '490e9ac1913399f7', '1311f267a55a88c0', 'd7aa0f935f6c9366', 'ce632b05f0660a64'],
      '3f60163d2af3c8f8',
    ],
  },
  {
    name: 'control',
    migrations: controlPlaneMigrations,
    fixture: 'sqlite/testing/versions/control-v?.db.gz',
    hashes: [
      ...['869fcf2c736aa276', '8b6707abbf252e6f', 'e3377309c7d81b1d', '6b4e23d89a5425b5', '662ea8cac76f199e'],
      ...['4f6335ea32835be8', '034ed5c1d09c61bb', 'caa04155564c1e66', '970876d31e426742'],
      'eee84001a558c4ff',
      'fb9ea2a52b769071',
    ],
  },
  {
    name: 'bash',
    migrations: bashMigrations,
    fixture: 'sqlite/testing/versions/bash-v?.db.gz',
    hashes: ['ba25d61854074b01', '96a71104481d50a0', '4944a9d9235ac88f'],
  },
  {
    name: 'tables',
    migrations: databaseMigrations,
    fixture: 'postgres/testing/versions/tables-v?.sql.gz',
    hashes: [
      ...['49c6a66b2c5b665b', '29f89ccd4aab9061', '35372d3e8e9734c8', '3681a4a5cd17c25c', 'a956ac23bc896f7a'],
      ...['2d4cc821dbb7fa77', '476ba874d9b95397', 'c69a58805e718b7f'],
      '41652c9b479c9fa2',
      '93b0bacb46ea2bf1',
    ],
  },
] as const

test.each(versions)('every version of $name is unchanged, and there is data of it', (schema) => {
  const texts = schema.migrations.map((sql) => sql.replace(/\s+/g, ' ').trim())
  expect(texts.map((text) => hash('sha256', text).slice(0, 16))).toEqual(schema.hashes)
  const fixtures = texts.map((_, at) => schema.fixture.replace('?', String(at + 1)))
  expect(fixtures.filter((path) => !existsSync(join(import.meta.dirname, path)))).toEqual([])
})
