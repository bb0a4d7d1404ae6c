import { serve } from '@slipway/agent-server'

const stop = new AbortController()
await serve({
  host: '127.0.0.1',
  port: 0,
  data: './data',
  env: { SLIPWAY_SESSION_API_KEY: 'a-key-of-this-example' },
  signal: stop.signal,
  ready: async (url) => {
    console.log(await (await fetch(`${url}/ready`)).json()) // { status: 'ready' }
    stop.abort()
  },
})
