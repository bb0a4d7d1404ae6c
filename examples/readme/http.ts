import { createApp, createLogger, listen } from '@slipway/http'
import type { RouteTable } from '@slipway/protocol'

const routes = {
  greet: { method: 'GET', path: '/greet', tag: 'demo', summary: 'Greets.', responses: {} },
} satisfies RouteTable
const handlers = { greet: () => ({ json: { text: 'Hello' } }) }

const app = createApp(routes, handlers, { openapi: {}, log: createLogger(process.stderr) })
const listening = await listen(app, { host: '127.0.0.1', port: 0 })
console.log(await (await fetch(`${listening.url}/greet`)).json()) // { text: 'Hello' }
await listening.close()
