import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { AgentDriver, bashStep, finishStep } from '../support/agent-driver.ts'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'

vi.setConfig({ testTimeout: 120_000 })

const line = JSON.stringify({
  kind: 'MessageEvent',
  source: 'user',
  llm_message: { role: 'user', content: [{ type: 'text', text: 'x'.repeat(200_000) }] },
})

/** A server with runs that do not stop, readers that stand still, streams and a silent webhook receiver. */
async function startBusy(directory: string, count: { readonly readers: number; readonly runs: number }) {
  await mkdir(directory)
  // It never answers.
  const receiver = createServer(() => {})
  await once(receiver.listen(0, '127.0.0.1'), 'listening')
  const { port } = receiver.address() as AddressInfo
  const server = await startAgentServer(join(directory, 'data'), {
    SLIPWAY_WEBHOOKS: JSON.stringify([{ base_url: `http://127.0.0.1:${port}` }]),
  })
  onTestFinished(async () => {
    await server.stop('SIGKILL')
    receiver.closeAllConnections()
    receiver.close()
  })
  const api = new AgentServerApi({ url: server.url, headers: {} })
  const driver = new AgentDriver({ api, directory })
  const long = await api.import(Array.from({ length: 100 }, () => line).join('\n'))
  const readers = Array.from({ length: count.readers }, () => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1').pause()
    socket
      .on('error', () => {})
      .write(`GET /api/conversations/${long}/export HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    return socket
  })
  const runs = await Promise.all(
    Array.from({ length: count.runs }, () =>
      driver.createScripted([bashStep("trap '' TERM INT; sleep 600"), finishStep()]),
    ),
  )
  const streams = runs.map(({ id }) =>
    api.fetch(`/api/conversations/${id}/events/stream`).then((response) => response.text()),
  )
  for (const { id } of runs) await driver.waitForEvent(id, ({ kind }) => kind === 'ActionEvent')
  /** Its duration in ms. */
  return async () => {
    const before = performance.now()
    expect(await server.stop('SIGTERM')).toBe(0)
    const duration = performance.now() - before
    await Promise.all(streams)
    for (const reader of readers) reader.destroy()
    return duration
  }
}

test('a stop waits for all that does not end together: runs, streams, readers that stand still, a silent receiver', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'stop-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const stopOne = await startBusy(join(directory, 'one'), { readers: 1, runs: 1 })
  const stopMany = await startBusy(join(directory, 'many'), { readers: 4, runs: 20 })
  // At the same time, on the same machine: one after another, the runs alone would take 20 s.
  const [one, many] = await Promise.all([stopOne(), stopMany()])
  expect(many).toBeLessThan(3 * one)
})
