import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { agentServerMain, sandboxServerMain } from '@slipway/shared/process/testing'
import { expect, test, vi } from 'vitest'
import { startProcess } from '../support/agent-server.ts'
import { freePort } from '../support/free-port.ts'

vi.setConfig({ testTimeout: 120_000 })
const checkMs = 100
const env = { SLIPWAY_NO_KEY: '1', SLIPWAY_ISOLATION: 'none', SLIPWAY_DRAIN_SECONDS: '1' }
const mains = {
  'agent-server': agentServerMain,
  'sandbox-server': sandboxServerMain,
}

test.for(Object.entries(mains))(
  'a rolling restart of three of %s behind a proxy answers nothing with 502',
  async ([, main]) => {
    const directory = await mkdtemp(join(tmpdir(), 'roll-'))
    const ports = await Promise.all([freePort(), freePort(), freePort()])
    const start = (port: number) =>
      startProcess([main, '--port', String(port), '--data', join(directory, String(port))], env)
    const servers = await Promise.all(ports.map(start))
    await using proxy = await openProxy(ports)
    try {
      await expect.poll(() => proxy.ready.size, { timeout: 20_000 }).toBe(3)
      const stopped = new AbortController()
      const statuses: number[] = []
      const clients = [1, 2, 3, 4].map(async () => {
        while (!stopped.signal.aborted) {
          statuses.push((await fetch(`${proxy.url}/server_info`)).status)
          await sleep(5)
        }
      })
      for (const [at, port] of ports.entries()) {
        await servers[at]?.stop('SIGTERM')
        servers[at] = await start(port)
        await expect.poll(() => proxy.ready.size, { timeout: 20_000 }).toBe(3)
      }
      stopped.abort()
      await Promise.all(clients)
      expect(statuses.length).toBeGreaterThan(100)
      expect(statuses.filter((status) => status !== 200)).toEqual([])
    } finally {
      await Promise.all(servers.map((server) => server.stop('SIGINT')))
      await rm(directory, { recursive: true, force: true, maxRetries: 10 })
    }
  },
)

/** Passes requests on to the servers whose `/ready` was 200 when it was asked last; never a second time. */
async function openProxy(ports: readonly number[]) {
  const agent = new Agent({ keepAlive: true })
  const ready = new Set<number>()
  const stop = new AbortController()
  const watches = ports.map(async (port) => {
    while (!stop.signal.aborted) {
      const { ok } = await fetch(`http://127.0.0.1:${port}/ready`).catch(() => ({ ok: false }))
      if (ok) ready.add(port)
      else ready.delete(port)
      await sleep(checkMs)
    }
  })
  let turn = 0
  const server = createServer((incoming, outgoing) => {
    const port = [...ready][turn++ % ready.size]
    const passed = request({ host: '127.0.0.1', port, path: incoming.url, agent }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500)
      answer.pipe(outgoing)
    })
    passed.on('error', () => outgoing.writeHead(502).end())
    passed.end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    ready,
    async [Symbol.asyncDispose]() {
      stop.abort()
      await Promise.all(watches)
      agent.destroy()
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}
