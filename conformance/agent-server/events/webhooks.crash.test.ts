import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { OwnAgentServer } from '../../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../../support/agent-server-api.ts'

const kills = 3
const key = 'session-key-of-the-server'

/**
 * A receiver that stores events, sometimes reports a failure after storing, and can wait for a number of
 * requests.
 */
async function openReceiver() {
  const logs = new Map<string, string[]>()
  const infos: Record<string, unknown>[] = []
  let requestCount = 0
  let waiter: { readonly count: number; done(): void } | undefined
  const server = createServer(async (request, response) => {
    const body = await text(request).catch(() => undefined)
    if (body === undefined) return
    expect(request.headers['x-session-api-key']).toBe(key)
    const id = /\/events\/([0-9a-f]{32})$/.exec(request.url ?? '')?.[1]
    if (id === undefined) infos.push(JSON.parse(body))
    else {
      const log = logs.get(id) ?? []
      logs.set(id, log)
      const after = Number(request.headers['x-slipway-after'])
      expect(after).toBeLessThanOrEqual(log.length)
      log.splice(
        after,
        Number.POSITIVE_INFINITY,
        ...JSON.parse(body).map((event: unknown) => JSON.stringify(event)),
      )
    }
    requestCount += 1
    if (requestCount === waiter?.count) waiter.done()
    // Every fifth request is stored and reported as failed.
    response.writeHead(requestCount % 5 === 0 ? 500 : 200).end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1/webhooks`,
    logs,
    infos,
    /** Resolves after this many more requests. */
    more: (count: number) => new Promise<void>((done) => (waiter = { count: requestCount + count, done })),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

test('after any number of kills the receiver has the events of the export', async () => {
  await using far = await openReceiver()
  await using server = await OwnAgentServer.open({
    sessionKey: key,
    env: {
      OH_WEBHOOKS_0_BASE_URL: far.url,
      OH_WEBHOOKS_0_EVENT_BUFFER_SIZE: '20',
      OH_WEBHOOKS_0_RETRY_DELAY: '0.01',
    },
  })
  const ids: string[] = []
  for (let round = 0; round <= kills; round++) {
    const some = Array.from({ length: 400 }, (_, i) =>
      messageLine(`r${round}-${i}`, `2026-01-01T0${round}:00:00.${String(i).padStart(6, '0')}Z`, `ä ${i}`),
    )
    const isHeard = far.more(6 + round)
    ids.push(await server.api.import(toJsonLines(...some)))
    await isHeard
    if (round < kills) await server.restart('SIGKILL')
  }
  const { api } = server
  await api.sendJson('PATCH', `/api/conversations/${ids[0]}`, { title: 'After all' })
  await expect
    .poll(() => far.infos.some(({ id, title }) => id === ids[0] && title === 'After all'), {
      timeout: 60_000,
    })
    .toBe(true)
  for (const id of ids) {
    const exported = (await api.export(id)).toString()
    const heard = () => (far.logs.get(id.replaceAll('-', '')) ?? []).map((line) => `${line}\n`).join('')
    await expect.poll(heard, { timeout: 60_000, interval: 50 }).toBe(exported)
  }
  await api.requestJson(`/api/conversations/${ids[0]}`, { method: 'DELETE' })
  expect(await server.stop()).toBe(0)
  expect(far.infos.at(-1)).toMatchObject({ id: ids[0], execution_status: 'deleting' })
  expect(server.output()).not.toContain(key)
}, 180_000)
