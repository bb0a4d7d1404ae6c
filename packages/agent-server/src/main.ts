import { parseArgs } from 'node:util'
import { serve } from './serve.ts'

/** The agent server alone, as it runs inside a sandbox: `node main.ts --host --port --data`. */
const { values } = parseArgs({
  options: {
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '8000' },
    data: { type: 'string', default: '.slipway' },
  },
})
const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
await serve({
  host: values.host,
  port: Number(values.port),
  data: values.data,
  env: process.env,
  signal: stop.signal,
  ready: (url) => console.log(url),
})
