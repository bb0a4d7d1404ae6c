import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { commandMain } from '@slipway/shared/process/testing'
import { expect, test } from 'vitest'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../../support/agent-server-api.ts'

function lines(name: string, count: number, conversation?: string): string {
  const events = Array.from({ length: count }, (_, n) =>
    messageLine(`${name}-${n}`, '2026-01-01T00:00:00Z', `${name} ${n}`),
  )
  return toJsonLines(...(conversation === undefined ? [] : [{ conversation_id: conversation }]), ...events)
}

async function waitUntil(check: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 60_000; !check(); await sleep(20))
    if (Date.now() > deadline) throw new Error('waited for a minute')
}

test('an older log is refused with the next command, which accepts it and tells receivers where it ends', {
  timeout: 180_000,
}, async () => {
  const base = await mkdtemp(join(tmpdir(), 'slipway-accept-'))
  const seen: { path: string; headers: IncomingHttpHeaders }[] = []
  const receiver = createServer((request, response) => {
    seen.push({ path: request.url ?? '', headers: request.headers })
    request.resume().on('end', () => response.end('{}'))
  })
  receiver.listen(0, '127.0.0.1')
  await new Promise((done) => receiver.once('listening', done))
  const hook = { base_url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`, flush_delay: 0.01 }
  try {
    await using server = await OwnAgentServer.open({ env: { SLIPWAY_WEBHOOKS: JSON.stringify([hook]) } })
    const events = (after: number) =>
      seen.some(
        ({ path, headers }) => path.includes('/events/') && headers['x-slipway-after'] === String(after),
      )
    const id = await server.api.import(lines('kept', 20))
    await waitUntil(() => events(0))
    await server.stop()
    await cp(join(server.data, 'log.db'), join(base, 'log.db'))
    await server.start()
    await server.api.import(lines('lost', 10, id))
    await waitUntil(() => events(20))
    expect((await server.api.search(id, { body: 'lost 3' })).items).toHaveLength(1)
    await server.stop()
    await rm(join(server.data, 'log.db'))
    const accept = (...more: string[]) =>
      promisify(execFile)(process.execPath, [
        commandMain,
        '--json',
        'accept-log',
        '--data',
        server.data,
        ...more,
      ])
    await expect(server.start()).rejects.toThrow(
      /log\.db is missing, but .* slipway accept-log --data .* --empty/,
    )
    await expect(accept()).rejects.toMatchObject({
      stderr: expect.stringMatching(/There is no log in .*--empty/),
    })
    await cp(join(base, 'log.db'), join(server.data, 'log.db'))
    await expect(server.start()).rejects.toThrow(
      /log\.db is older than what was acknowledged.* slipway accept-log/,
    )
    expect(JSON.parse((await accept()).stdout)).toMatchObject({ generation: 2, conversations: 1, events: 20 })
    const restartedAt = seen.length
    await server.start()
    await waitUntil(() => seen.slice(restartedAt).some(({ headers }) => headers['x-slipway-resync'] === '20'))
    await server.api.import(lines('later', 15, id))
    expect((await server.api.search(id, { body: 'lost 3' })).items).toEqual([])
    expect((await server.api.search(id, { body: 'later 3' })).items).toHaveLength(1)
    await expect(accept()).rejects.toMatchObject({
      stderr: expect.stringContaining('in use by another process'),
    })
  } finally {
    receiver.closeAllConnections()
    receiver.close()
    await rm(base, { recursive: true })
  }
})
