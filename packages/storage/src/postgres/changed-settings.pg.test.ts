import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { conversation, readAll } from '../testing/fixtures.ts'
import { openPostgresControlPlaneStore } from './control-plane/control-plane-store.ts'
import { openPostgresStorage } from './storage.ts'
import { hasPooler, startPooler } from './testing/own-pooler.ts'
import { startOwnPostgres } from './testing/own-postgres.ts'
import { describePostgres, runSql } from './testing/test-database.ts'

vi.setConfig({ testTimeout: 120_000 })
const draft = { kind: 'PauseEvent', source: 'user' }
const waiting = { timeout: 60_000, interval: 50 }

/** Settings of PostgreSQL that somebody changes while a server runs. */
describePostgres('settings of PostgreSQL that change', () => {
  let postgres: Awaited<ReturnType<typeof startOwnPostgres>>
  beforeAll(async () => {
    postgres = await startOwnPostgres()
  }, 120_000)
  afterAll(() => postgres?.[Symbol.asyncDispose]())

  const admin = (sql: string) => runSql(sql, postgres.url)
  /** Each with its own database. */
  const createDatabase = async (name: string) => {
    await admin(`CREATE DATABASE ${name}`)
    return Object.assign(new URL(postgres.url), { pathname: `/${name}` }).href
  }
  /** Changes a setting for new connections, and ends the others when it is committed. */
  const change = async (name: string, setting: string) => {
    await admin(`ALTER DATABASE ${name} SET ${setting}`)
    await admin(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`)
  }
  /** Notes the setting with which each statement of a table is committed. */
  const noteSettings = (url: string, table: string) =>
    runSql(
      `CREATE TABLE noted (synchronous text);
       CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         INSERT INTO noted VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
       CREATE TRIGGER note AFTER INSERT OR UPDATE ON ${table} FOR EACH STATEMENT EXECUTE FUNCTION note()`,
      url,
    )
  const noted = async (url: string) =>
    (await runSql('SELECT DISTINCT synchronous FROM noted', url)).map(({ synchronous }) => synchronous)

  const ways = [
    { way: 'directly', hasWay: true, name: 'direct' },
    { way: 'through a pooler in transaction mode', hasWay: hasPooler, name: 'pooled' },
  ]
  describe.each(ways)('$way', ({ hasWay, name }) => {
    test.runIf(hasWay)('commits stay durable when synchronous_commit is switched off', async () => {
      const direct = await createDatabase(name)
      await using pooler = name === 'pooled' ? await startPooler(direct) : undefined
      const url = pooler?.url ?? direct
      const warnings: string[] = []
      const log = (level: string, message: string) => void (level === 'warn' && warnings.push(message))
      await using storage = await openPostgresStorage({ url, directUrl: direct, log })
      await storage.conversations.create({ id: conversation })
      await noteSettings(direct, 'event')
      await change(name, 'synchronous_commit = off')
      const append = () =>
        storage.log.append(conversation, [draft]).then(
          () => 'stored',
          ({ code }) => code,
        )
      await expect.poll(append, waiting).toBe('stored')
      expect(await noted(direct)).toEqual(['on'])
      expect(warnings).toEqual([expect.stringContaining('synchronous_commit = off')])
    })
  })

  test('a stronger synchronous_commit stays, and the control plane commits durably too', async () => {
    const url = await createDatabase('plane')
    await using store = await openPostgresControlPlaneStore({ url })
    await noteSettings(url, 'document')
    const update = (text: string) =>
      store.documents
        .update('', 'a', () => Buffer.from(text))
        .then(
          () => 'stored',
          ({ code }) => code,
        )
    await change('plane', 'synchronous_commit = off')
    await expect.poll(() => update('off'), waiting).toBe('stored')
    expect(await noted(url)).toEqual(['on'])
    await runSql('DELETE FROM noted', url)
    await change('plane', 'synchronous_commit = remote_apply')
    await expect.poll(() => update('remote'), waiting).toBe('stored')
    expect(await noted(url)).toEqual(['remote_apply'])
  })

  test('fsync that is switched off later is warned about', async () => {
    const url = await createDatabase('fsync')
    const warnings: string[] = []
    const log = (level: string, message: string) => void (level === 'warn' && warnings.push(message))
    await using storage = await openPostgresStorage({ url, log })
    await storage.conversations.create({ id: conversation })
    expect(warnings).toEqual([])
    await admin("ALTER SYSTEM SET fsync = 'off'")
    await admin('SELECT pg_reload_conf(), pg_sleep(0.5)')
    for (let n = 0; n < 2; n++) await storage.log.append(conversation, [draft])
    await admin('ALTER SYSTEM RESET fsync')
    await admin('SELECT pg_reload_conf(), pg_sleep(0.5)')
    expect(warnings).toEqual([expect.stringContaining('fsync = off')])
  })

  test('a database that takes no writes is refused in words, at the start and later', async () => {
    const url = await createDatabase('readonly')
    {
      await using storage = await openPostgresStorage({ url })
      await storage.conversations.create({ id: conversation })
      await storage.log.append(conversation, [draft])
      await change('readonly', 'default_transaction_read_only = on')
      const problem = () =>
        storage.log.append(conversation, [draft]).then(
          () => '',
          ({ message }) => message,
        )
      await expect.poll(problem, waiting).toMatch(/takes no writes.*default_transaction_read_only/)
      // The way to the database is free, and it stays unusable.
      await expect.poll(problem, waiting).toMatch(/takes no writes/)
      expect(storage.problem?.message).toMatch(/takes no writes/)
      await expect(openPostgresStorage({ url })).rejects.toThrow(
        /takes no writes.*default_transaction_read_only/,
      )
      await admin('ALTER DATABASE readonly RESET default_transaction_read_only')
      await expect.poll(problem, waiting).toBe('')
    }
    await using storage = await openPostgresStorage({ url })
    expect((await readAll(storage)).length).toBeGreaterThanOrEqual(2)
  })

  test('too few connections for a server are said at the start', async () => {
    const url = await createDatabase('few')
    await admin("CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT 5; GRANT ALL ON DATABASE few TO few")
    await runSql('GRANT ALL ON SCHEMA public TO few', url)
    const warnings: [string, object | undefined][] = []
    const log = (level: string, message: string, fields?: object) =>
      void (level === 'warn' && warnings.push([message, fields]))
    const own = Object.assign(new URL(url), { username: 'few', password: 'few' }).href
    await (await openPostgresStorage({ url: own, log }))[Symbol.asyncDispose]()
    expect(warnings).toEqual([
      [expect.stringContaining('allows fewer connections'), { allowed: 5, used: 11 }],
    ])
  })

  test('a standby is refused in words', async () => {
    const url = await createDatabase('standby')
    await (await openPostgresStorage({ url }))[Symbol.asyncDispose]()
    const [row] = await admin('SHOW data_directory')
    writeFileSync(join(String(row?.data_directory), 'standby.signal'), '')
    await postgres.crash()
    const open = () =>
      openPostgresStorage({ url }).then(
        () => '',
        (error: Error) => error.message,
      )
    await expect.poll(open, { ...waiting, timeout: 60_000 }).toMatch(/is a standby, which takes no writes/)
    await admin('SELECT pg_promote()')
    await (await openPostgresStorage({ url }))[Symbol.asyncDispose]()
  })
})
