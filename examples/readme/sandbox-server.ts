import { resolve } from 'node:path'
import { serveSandboxes } from '@slipway/sandbox-server'

const program = resolve(import.meta.dirname, '../..')
const stop = new AbortController()
await serveSandboxes({
  host: '127.0.0.1',
  port: 0,
  data: './data',
  env: {},
  agent: {
    command: [process.execPath, resolve(program, 'packages/agent-server/src/main.js')],
    readable: [process.execPath, resolve(program, 'packages'), resolve(program, 'node_modules')],
  },
  isKeyWanted: false,
  signal: stop.signal,
  ready: async ({ url }) => {
    console.log(await (await fetch(`${url}/ready`)).json()) // { status: 'ready' }
    stop.abort()
  },
})
