import { createServer } from 'node:http'
import { createApp, listen as listenApp } from '@slipway/http'
import { agentServerRoutes, type RouteTable } from '@slipway/protocol'
import { listen } from './listen.ts'

/**
 * One fixed buffer: `node http-core.ts <bytes>` serves it with bare `node:http`, `node http-core.ts <bytes>
 * app` with `createApp` and the routes of the agent server.
 */
const [size = '300', kind = 'floor'] = process.argv.slice(2)
const bytes = Buffer.alloc(Number(size), ' ')

if (kind === 'app') {
  const routes: RouteTable = agentServerRoutes
  const handlers = Object.fromEntries(Object.keys(routes).map((name) => [name, () => ({ bytes })]))
  const app = createApp(routes, handlers, { openapi: {}, log: () => {} })
  const { url } = await listenApp(app, { host: '127.0.0.1', port: 0 })
  console.log(url)
  process.once('SIGTERM', () => process.exit())
} else {
  await listen(
    createServer((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length })
      response.end(bytes)
    }),
  )
}
