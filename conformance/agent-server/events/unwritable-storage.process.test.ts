import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { agentServerMain } from '@slipway/shared/process/testing'
import { expect, test } from 'vitest'
import { AgentDriver, bashStep, finishStep, scriptedModel } from '../../support/agent-driver.ts'
import { startProcess } from '../../support/agent-server.ts'
import { AgentServerApi, messageLine, toJsonLines } from '../../support/agent-server-api.ts'

const waiting = { timeout: 120_000, interval: 100 }
const ndjson = { 'content-type': 'application/x-ndjson' }
const limit = { timeout: 300_000 }
const canLimit = spawnSync('prlimit', ['--version']).status === 0
const canMount =
  process.getuid?.() === 0 &&
  spawnSync('unshare', ['-m', 'sh', '-c', 'mount -t tmpfs none /mnt']).status === 0
const sizeLimitTest = test.skipIf(!canLimit)
const mountTest = test.skipIf(!canMount)

/** A server on its own data directory; with `diskMiB` the directory is a disk of that size. */
async function openServer({
  diskMiB,
  directory,
}: {
  readonly diskMiB?: number
  readonly directory?: string
} = {}) {
  const base = mkdtempSync(join(tmpdir(), 'slipway-unwritable-'))
  chmodSync(base, 0o755)
  const data = directory ?? join(base, 'data')
  const mount = `mkdir "$0" && mount -t tmpfs -o size=${diskMiB}m none "$0" && exec "$@"`
  const wrapper = diskMiB === undefined ? [] : ['unshare', '-m', 'sh', '-c', mount, data]
  const server = await startProcess(
    [agentServerMain, '--port', '0', '--data', data],
    { SLIPWAY_NO_KEY: '1' },
    wrapper,
  )
  const api = new AgentServerApi({ url: server.url, headers: {} })
  const pid = String(server.pid)
  return {
    api,
    data,
    /** The data directory as the server sees it. */
    seen: diskMiB === undefined ? data : join('/proc', pid, 'root', data),
    base,
    output: server.output,
    pid: server.pid,
    /** Files of the server may not grow above this; undefined: no limit. */
    limitFiles(bytes: number | undefined) {
      execFileSync('prlimit', ['--pid', pid, `--fsize=${bytes ?? 'unlimited'}:`])
    },
    async send(id: string, text: string) {
      const response = await api.fetch(`/api/conversations/${id}/events`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ role: 'user', content: [{ type: 'text', text }] }),
      })
      const body = await response.text()
      return { status: response.status, body, retryAfter: response.headers.get('retry-after') }
    },
    async ready() {
      return await api.requestJson<{ status: string; message?: string }>('/ready')
    },
    async metric(name: string) {
      const text = await (await api.fetch('/metrics')).text()
      return Number(new RegExp(`^${RegExp.escape(name)} (\\S+)$`, 'm').exec(text)?.[1])
    },
    async [Symbol.asyncDispose]() {
      await server.stop('SIGKILL')
      rmSync(base, { recursive: true, force: true })
    },
  }
}

type Server = Awaited<ReturnType<typeof openServer>>

async function texts(server: Server, id: string): Promise<string> {
  return (await server.api.export(id)).toString()
}

/** Sends messages until the server accepts one again. */
async function waitUntilWritable(server: Server, id: string): Promise<void> {
  await expect.poll(async () => (await server.send(id, 'again')).status, waiting).toBe(200)
  await expect.poll(async () => (await server.ready()).status, waiting).toBe(200)
  expect(await server.metric('slipway_storage_writable')).toBe(1)
}

sizeLimitTest(
  'after I/O errors writes continue without a restart, and nothing acknowledged is lost',
  limit,
  async () => {
    await using server = await openServer()
    const id = await server.api.import('')
    expect((await server.send(id, 'before')).status).toBe(200)
    server.limitFiles(0)
    const refused = await server.send(id, 'refused')
    expect(refused).toMatchObject({ status: 503, retryAfter: expect.stringMatching(/^\d+$/) })
    expect(refused.body).toContain('log.db cannot be used')
    expect(await server.ready()).toMatchObject({
      status: 503,
      body: { message: expect.stringContaining('log.db') },
    })
    // Reads continue, also after the server's own attempts to write again.
    for (let n = 0; n < 10; n++) {
      expect(await server.metric('slipway_storage_writable')).toBe(0)
      expect(await server.metric('slipway_storage_refused_writes_total')).toBeGreaterThan(0)
      expect(await server.metric('slipway_conversations{status="idle"}')).toBe(1)
      expect(await texts(server, id)).toContain('before')
      await sleep(100)
    }
    const settings = await server.api.sendJson('PUT', '/api/settings/secrets', { name: 'A', value: 'b' })
    expect(settings.status).toBe(503)
    const startCommand = () =>
      server.api.sendJson('POST', '/api/bash/start_bash_command', { command: 'true' })
    expect((await startCommand()).status).toBe(503)
    server.limitFiles(undefined)
    await waitUntilWritable(server, id)
    // A file that could not be opened is tried again after some seconds.
    await expect.poll(async () => (await startCommand()).status, waiting).toBe(200)
    const log = await texts(server, id)
    expect(log).toContain('before')
    expect(log).toContain('again')
    expect(log).not.toContain('refused')
  },
)

sizeLimitTest('a run that cannot write ends with an error as soon as it can', limit, async () => {
  await using server = await openServer()
  const driver = new AgentDriver({ api: server.api, directory: server.base })
  const go = join(server.base, 'go')
  const script = [bashStep(`touch ${go}.started; until [ -e ${go} ]; do sleep 0.1; done`), finishStep()]
  const { id } = await driver.create({ llm: scriptedModel(script) })
  expect((await server.send(id, 'start')).status).toBe(200)
  await server.api.sendJson('POST', `/api/conversations/${id}/run`, {})
  await expect.poll(() => existsSync(`${go}.started`), waiting).toBe(true)
  const stream = await server.api.fetch(`/api/conversations/${id}/events/stream?until=idle`)
  server.limitFiles(0)
  writeFileSync(go, '')
  await expect.poll(() => server.metric('slipway_storage_refused_writes_total'), waiting).toBeGreaterThan(0)
  server.limitFiles(undefined)
  const events = await stream.text()
  expect(events).toContain('"code":"StorageError"')
  expect(await server.api.requestJson(`/api/conversations/${id}`)).toMatchObject({
    body: { execution_status: 'error' },
  })
})

sizeLimitTest('an import that fails lets go of its conversation', limit, async () => {
  await using server = await openServer()
  const id = await server.api.import('')
  expect((await server.send(id, 'before')).status).toBe(200)
  const lines = Array.from({ length: 2_000 }, (_, index) =>
    messageLine(`event-${index}`, '2031-01-01T00:00:00', `imported ${'x'.repeat(2_000)}`),
  )
  const body = toJsonLines(JSON.stringify({ conversation_id: id }), ...lines)
  server.limitFiles(1_000_000)
  const { status } = await server.api.requestJson('/api/conversations/import', {
    method: 'POST',
    headers: ndjson,
    body,
  })
  expect(status).toBe(503)
  const { status: whileFull } = await server.send(id, 'refused')
  expect([503, 200]).toContain(whileFull)
  server.limitFiles(undefined)
  await waitUntilWritable(server, id)
  expect(await texts(server, id)).not.toContain('imported')
  expect((await server.api.requestJson(`/api/conversations/${id}`, { method: 'DELETE' })).status).toBe(200)
})

mountTest(
  'a full disk answers 507, also to an import and a removal, and writes continue when it has room',
  limit,
  async () => {
    await using server = await openServer({ diskMiB: 24 })
    const id = await server.api.import('')
    expect((await server.send(id, 'before')).status).toBe(200)
    const ballast = join(server.seen, 'ballast')
    spawnSync('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=64k'])
    expect((await server.ready()).body).toMatchObject({ message: 'The disk is full' })
    const big = 'x '.repeat(1_500_000)
    const refused = await server.send(id, big)
    expect(refused).toMatchObject({ status: 507, retryAfter: expect.stringMatching(/^\d+$/) })
    const lines = Array.from({ length: 20 }, (_, index) =>
      messageLine(`event-${index}`, '2031-01-01T00:00:00', big),
    )
    const imported = await server.api.requestJson('/api/conversations/import', {
      method: 'POST',
      headers: ndjson,
      body: toJsonLines(JSON.stringify({ conversation_id: id }), ...lines),
    })
    expect(imported.status).toBe(507)
    const removed = await server.api.requestJson(`/api/conversations/${id}`, { method: 'DELETE' })
    expect([200, 507]).toContain(removed.status)
    rmSync(ballast)
    if (removed.status === 507) {
      await waitUntilWritable(server, id)
      expect(await texts(server, id)).toContain('before')
      expect((await server.api.requestJson(`/api/conversations/${id}`, { method: 'DELETE' })).status).toBe(
        200,
      )
    }
    await waitUntilWritable(server, await server.api.import(''))
  },
)

/** Shuts a file system down like a device that fails: every access is an error until it is mounted again. */
const shutDown = `
import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))`

mountTest(
  'after a device failed and is mounted again, writes continue without a restart',
  limit,
  async ({ skip }) => {
    const base = mkdtempSync(join(tmpdir(), 'slipway-device-'))
    using stack = new DisposableStack()
    stack.defer(() => rmSync(base, { recursive: true, force: true }))
    const data = join(base, 'data')
    const run = (...[program = '', ...args]: string[]) => spawnSync(program, args).status === 0
    const mount = () => run('mount', '-o', 'loop', `${base}/image`, data)
    mkdirSync(data)
    writeFileSync(join(base, 'image'), Buffer.alloc(64 * 1024 * 1024))
    if (!run('mkfs.ext4', '-q', `${base}/image`) || !mount()) skip('this machine mounts no images')
    stack.defer(() => run('umount', '-l', data))
    await using server = await openServer({ directory: data })
    const id = await server.api.import('')
    expect((await server.send(id, 'before')).status).toBe(200)
    if (!run('python3', '-c', shutDown, data)) skip('this machine shuts no file system down')
    expect(await server.send(id, 'refused')).toMatchObject({ status: 503 })
    expect(await server.metric('slipway_storage_writable')).toBe(0)
    // The server lets go of its files, so that the file system can be mounted again.
    await expect.poll(() => run('umount', data), waiting).toBe(true)
    expect(await server.metric('slipway_storage_writable')).toBe(0)
    expect(mount()).toBe(true)
    await waitUntilWritable(server, id)
    const log = await texts(server, id)
    expect(log).toContain('before')
    expect(log).not.toContain('refused')
  },
)

test('a foreign lock stops no other request, and writes wait for it', limit, async () => {
  await using server = await openServer()
  const id = await server.api.import('')
  using foreign = new DatabaseSync(join(server.data, 'log.db'))
  foreign.exec('BEGIN IMMEDIATE')
  const write = server.send(id, 'waits')
  const first = await Promise.race([
    write.then(() => 'write'),
    server.api.fetch('/health').then(() => 'health'),
  ])
  expect(first).toBe('health')
  expect(await server.api.search(id)).toMatchObject({ items: [] })
  foreign.exec('ROLLBACK')
  expect((await write).status).toBe(200)
})

test('a foreign lock that stays refuses writes with 503 until it is gone', limit, async () => {
  await using server = await openServer()
  const id = await server.api.import('')
  using foreign = new DatabaseSync(join(server.data, 'log.db'))
  foreign.exec('BEGIN IMMEDIATE')
  const refused = await server.send(id, 'refused')
  expect(refused).toMatchObject({ status: 503, retryAfter: expect.stringMatching(/^\d+$/) })
  expect(refused.body).toContain('another process')
  expect((await server.ready()).status).toBe(503)
  foreign.exec('ROLLBACK')
  await waitUntilWritable(server, id)
})

mountTest(
  'a data directory that becomes read-only refuses changes with its reason, and continues when it is writable again',
  limit,
  async (context) => {
    await using server = await openServer({ diskMiB: 24 })
    const inside = (...command: string[]) =>
      spawnSync('nsenter', ['-t', String(server.pid), '-m', ...command])
    const id = await server.api.import('')
    const acknowledged: string[] = []
    const send = async (text: string) => {
      const { status } = await server.send(id, text)
      if (status === 200) acknowledged.push(text)
      else expect([503, 507]).toContain(status)
    }
    await send('before')
    const { status, stderr } = inside('mount', '--bind', '-o', 'ro', server.data, server.data)
    if (status !== 0) context.skip(`a read-only mount is not possible here: ${String(stderr)}`)
    await expect
      .poll(() => server.ready(), waiting)
      .toMatchObject({ status: 503, body: { message: expect.stringContaining('read-only') } })
    // Files that were open stay writable: what is acknowledged through them counts.
    for (let n = 0; n < 5; n++) await send(`while read-only ${n}`)
    expect(inside('umount', server.data).status).toBe(0)
    await waitUntilWritable(server, id)
    const again = await server.api.sendJson('PUT', '/api/settings/secrets', { name: 'A', value: 'b' })
    expect(again.status).toBe(200)
    const log = await texts(server, id)
    for (const text of acknowledged) expect(log).toContain(text)
  },
)
