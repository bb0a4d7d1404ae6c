import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test, vi } from 'vitest'
import { createTestSchema, describePostgres, runSql, type TestSchema } from '../testing/test-database.ts'
import { openPostgresControlPlaneStore } from './control-plane-store.ts'

vi.setConfig({ testTimeout: 120_000 })
const patience = { timeout: 60_000, interval: 50 }
const holder = fileURLToPath(new URL('./testing/lease-holder.ts', import.meta.url))
const times = { leaseMs: 3_000, renewMs: 200 }
const put = (text: string) => () => Buffer.from(text)

describePostgres('leases of control planes', () => {
  test('work with one key follows itself in all servers, and other keys do not wait', async () => {
    await using schema = await createTestSchema()
    await using first = await open(schema)
    await using second = await open(schema)
    let running = 0
    let done = 0
    const work = async () => {
      running += 1
      expect(running).toBe(1)
      await pause(5)
      running -= 1
      done += 1
    }
    const calls = Array.from({ length: 20 }, (_, n) =>
      (n % 2 ? first : second).leases.runExclusive('k', work),
    )
    await Promise.all(calls)
    expect(done).toBe(20)
    await first.leases.runExclusive('a', () => second.leases.runExclusive('b', async () => {}))
    expect(await runSql('SELECT * FROM lease', schema.url)).toEqual([])
  })

  test('one server has a lease, until it gives it back or ends', async () => {
    await using schema = await createTestSchema()
    const first = await open(schema)
    await using second = await open(schema)
    const lease = await first.leases.tryAcquire('a')
    expect(await second.leases.tryAcquire('a')).toBeUndefined()
    await lease?.release()
    expect(await second.leases.tryAcquire('a')).toBeDefined()
    expect(await first.leases.tryAcquire('b')).toBeDefined()
    await first[Symbol.asyncDispose]()
    expect(await second.leases.tryAcquire('b')).toBeDefined()
  })

  test('what a server writes after its lease was taken is refused; other work of it continues', async () => {
    await using schema = await createTestSchema()
    await using first = await open(schema)
    await using second = await open(schema)
    const lease = await first.leases.tryAcquire('a')
    const { documents } = first
    await lease?.run(() => documents.update('', 'd', put('1')))
    await second.leases.take('a')
    const late = lease?.run(() => documents.update('', 'd', put('2')))
    await expect(late).rejects.toMatchObject({ code: 'unavailable' })
    await lease?.release()
    expect(await first.leases.tryAcquire('a')).toBeUndefined()
    expect(String(await second.documents.get('', 'd'))).toBe('1')
    await documents.update('', 'd', put('3'))
    expect(String(await second.documents.get('', 'd'))).toBe('3')
  })

  for (const signal of ['SIGKILL', 'SIGSTOP'] as const)
    test(`the work of a server is taken over after ${signal}`, async () => {
      await using schema = await createTestSchema()
      await using store = await open(schema)
      const child = spawn(process.execPath, [holder, schema.url], { stdio: ['ignore', 'pipe', 'inherit'] })
      try {
        const lines = createInterface({ input: child.stdout as NonNullable<ChildProcess['stdout']> })
        const output: string[] = []
        lines.on('line', (line) => output.push(line))
        await expect.poll(() => output.length, patience).toBeGreaterThan(3)
        expect(await store.leases.tryAcquire('work')).toBeUndefined()
        child.kill(signal)
        await expect.poll(() => store.leases.tryAcquire('work'), patience).toBeDefined()
        const taken = String(await store.documents.get('', 'work'))
        child.kill('SIGCONT')
        if (signal === 'SIGSTOP') await expect.poll(() => output.at(-1), patience).toBe('refused')
        expect(String(await store.documents.get('', 'work'))).toBe(taken)
      } finally {
        const exited = child.exitCode !== null || child.signalCode !== null || once(child, 'exit')
        child.kill('SIGKILL')
        await exited
      }
    })

  test('a lease whose answer was lost is free again', async () => {
    await using schema = await createTestSchema()
    await using first = await open(schema)
    await using second = await open(schema)
    const lease = await first.leases.tryAcquire('a')
    const lock = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '${schema.name}'`
    await runSql(lock)
    await lease?.release()
    await expect.poll(() => second.leases.tryAcquire('a').catch(() => undefined), patience).toBeDefined()
  })
})

function open(schema: TestSchema) {
  return openPostgresControlPlaneStore({ url: schema.url, leaseTimes: times })
}
