import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { agentServerMain, sandboxServerMain } from '@slipway/shared/process/testing'
import { expect, test } from 'vitest'
import { startProcess } from '../support/agent-server.ts'

const mains = {
  'agent-server': agentServerMain,
  'sandbox-server': sandboxServerMain,
}
const paths = ['/metrics', '/health', '/alive', '/ready', '/server_info']
const env = {
  SLIPWAY_NO_KEY: '1',
  SLIPWAY_ISOLATION: 'none',
  SLIPWAY_METRICS_OPEN: 'true',
  SLIPWAY_DRAIN_SECONDS: '0',
}

test.for(Object.entries(mains))(
  '%s answers those that watch it while it can open no file',
  async ([, main]) => {
    const directory = await mkdtemp(join(tmpdir(), 'fds-'))
    const limited = ['sh', '-c', 'ulimit -n 80 && exec "$0" "$@"']
    const args = [main, '--port', '0', '--data', directory]
    const server = await startProcess(args, env, limited)
    const { port } = new URL(server.url.replace(/^\{"url":"(.*?)".*/, '$1'))
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const sockets: Socket[] = []
    try {
      const ask = (path: string) =>
        new Promise<{ status: number | undefined; body: string }>((done, fail) => {
          request({ port, path, agent }, async (answer) => {
            done({ status: answer.statusCode, body: await text(answer) })
          })
            .on('error', fail)
            .end()
        })
      expect((await ask('/alive')).status).toBe(200)
      for (let count = 0; count < 100; count++)
        sockets.push(connect(Number(port), '127.0.0.1').on('error', () => {}))
      // The server is at its limit when a connection is not answered but closed.
      await new Promise((done) => sockets.at(-1)?.once('close', done))
      for (const path of paths) expect([path, (await ask(path)).status]).toEqual([path, 200])
      const { body } = await ask('/metrics')
      expect(body).toMatch(/^slipway_storage_writable 1$/m)
    } finally {
      for (const socket of sockets) socket.destroy()
      agent.destroy()
      await server.stop()
      await rm(directory, { recursive: true, force: true, maxRetries: 10 })
    }
  },
)
