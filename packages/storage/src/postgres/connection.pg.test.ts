import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { conversation, readAll } from '../testing/fixtures.ts'
import { openPostgresStorage } from './storage.ts'
import { hasPooler, startPooler } from './testing/own-pooler.ts'
import { startOwnPostgres } from './testing/own-postgres.ts'
import { describePostgres, runSql, schemaUrl } from './testing/test-database.ts'

vi.setConfig({ testTimeout: 120_000 })
const draft = { kind: 'PauseEvent', source: 'user' }

describePostgres('connections to PostgreSQL', () => {
  let postgres: Awaited<ReturnType<typeof startOwnPostgres>>
  beforeAll(async () => {
    postgres = await startOwnPostgres()
  }, 120_000)
  afterAll(() => postgres?.[Symbol.asyncDispose]())

  const setting = (name: string, value: string) =>
    runSql(`ALTER SYSTEM SET ${name} = '${value}'`, postgres.url).then(() =>
      runSql('SELECT pg_reload_conf(), pg_sleep(0.5)', postgres.url),
    )
  const createSchema = async (name: string) => {
    await runSql(`CREATE SCHEMA ${name}`, postgres.url)
    return schemaUrl(postgres.url, name)
  }

  /** Poolers refuse the `options` that choose a schema. */
  const createDatabase = async (name: string) => {
    await runSql(`CREATE DATABASE ${name}`, postgres.url)
    return Object.assign(new URL(postgres.url), { pathname: `/${name}` }).href
  }

  test('a server that may lose what it acknowledged is warned about at the start', async () => {
    const url = await createSchema('unsafe')
    const warnings: string[] = []
    const log = (level: string, message: string) => void (level === 'warn' && warnings.push(message))
    await setting('fsync', 'off')
    await setting('full_page_writes', 'off')
    await (await openPostgresStorage({ url, log }))[Symbol.asyncDispose]()
    await setting('fsync', 'on')
    await setting('full_page_writes', 'on')
    expect(warnings).toEqual([
      expect.stringContaining('fsync = off'),
      expect.stringContaining('full_page_writes = off'),
    ])
    await (await openPostgresStorage({ url, log }))[Symbol.asyncDispose]()
    expect(warnings).toHaveLength(2)
  })

  test('TLS is used when it is asked for, and a certificate that nothing vouches for is refused', async () => {
    const url = new URL(await createSchema('encrypted'))
    const plain = openPostgresStorage({ url: withSslMode(url, 'verify-full') })
    await expect(plain).rejects.toThrow('it does not support TLS')
    const [row] = await runSql('SHOW data_directory', postgres.url)
    const certificate = createCertificate(String(row?.data_directory))
    await setting('ssl', 'on')
    await using storage = await openPostgresStorage({ url: withSslMode(url, 'verify-full', certificate) })
    await storage.conversations.create({ id: conversation })
    const [{ count } = {}] = await runSql(
      "SELECT count(*)::int AS count FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name = 'encrypted'",
      postgres.url,
    )
    expect(count).toBeGreaterThan(0)
    await expect(openPostgresStorage({ url: withSslMode(url, 'verify-full') })).rejects.toThrow(
      'DEPTH_ZERO_SELF_SIGNED_CERT',
    )
  })

  describe.runIf(hasPooler)('through a pooler in transaction mode', () => {
    test('events are written, read, searched and followed; the lock goes past the pooler', async () => {
      const direct = await createDatabase('pooled')
      await using pooler = await startPooler(direct)
      const { url } = pooler
      await expect(openPostgresStorage({ url: schemaUrl(url, 'any') })).rejects.toThrow('parameter: options')
      const stop = new AbortController()
      {
        await using storage = await openPostgresStorage({ url, directUrl: direct })
        await expect(openPostgresStorage({ url, directUrl: direct })).rejects.toThrow('in use')
        await storage.conversations.create({ id: conversation })
        const seen: number[] = []
        const tail = (async () => {
          for await (const batch of storage.log.tail(conversation, 0, stop.signal))
            seen.push(...batch.map(({ position }) => position))
        })()
        const writes = Array.from({ length: 200 }, () => storage.log.append(conversation, [draft]))
        await Promise.all(writes)
        await expect.poll(() => seen.length, { timeout: 10_000 }).toBe(200)
        stop.abort()
        await tail
        expect(seen).toEqual(seen.map((_, index) => index + 1))
        expect(await storage.log.count(conversation, { kind: 'PauseEvent' })).toBe(200)
      }
      await using storage = await openPostgresStorage({ url, directUrl: direct })
      expect(await readAll(storage)).toHaveLength(200)
    })

    test('servers that share a database see each other’s events without notices', async () => {
      const direct = await createDatabase('shared')
      await using pooler = await startPooler(direct)
      const { url } = pooler
      await using first = await openPostgresStorage({ url, directUrl: direct, leaseMs: 10_000 })
      await using second = await openPostgresStorage({ url, leaseMs: 10_000 })
      await first.conversations.create({ id: conversation })
      await first.leases?.acquire(conversation)
      const stop = new AbortController()
      const seen: number[] = []
      const tail = (async () => {
        for await (const batch of second.log.tail(conversation, 0, stop.signal))
          seen.push(...batch.map(({ position }) => position))
      })()
      for (let count = 1; count <= 3; count++) {
        await first.log.append(conversation, [draft])
        await expect.poll(() => seen.length, { timeout: 10_000 }).toBe(count)
      }
      stop.abort()
      await tail
    })
  })
  if (!hasPooler) console.warn('SKIPPED: a pooler in transaction mode: PgBouncer is not installed')
})

function withSslMode(url: URL, mode: string, certificate?: string): string {
  const copy = new URL(url)
  copy.searchParams.set('sslmode', mode)
  if (certificate !== undefined) copy.searchParams.set('sslrootcert', certificate)
  return copy.href
}

/** A certificate of 127.0.0.1 where PostgreSQL looks for it. Returns its path. */
function createCertificate(directory: string): string {
  const [key, certificate] = [join(directory, 'server.key'), join(directory, 'server.crt')]
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName = IP:127.0.0.1']
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
    ].concat(...[subject, ['-keyout', key, '-out', certificate]]),
    { stdio: 'ignore' },
  )
  const { uid, gid } = statSync(directory)
  for (const path of [key, certificate]) chownSync(path, uid, gid)
  chmodSync(key, 0o600)
  chmodSync(certificate, 0o644)
  return certificate
}
