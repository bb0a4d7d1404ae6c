import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { WebSocketServer } from 'ws'
import { listen } from './listen.ts'

/**
 * Sends each POST body to every socket, as the documentation of `ws` shows it: `client.send` in a loop. With
 * an argument it pings all of them, with that number of seconds between two pings.
 */
const server = createServer(async (request, response) => {
  const bytes = await buffer(request)
  for (const client of sockets.clients) client.send(bytes, { binary: false })
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end('{"success":true}')
})
const sockets = new WebSocketServer({ server, perMessageDeflate: false })
const pingSeconds = Number(process.argv[2] ?? 0)
if (pingSeconds > 0)
  setInterval(() => {
    for (const client of sockets.clients) client.ping()
  }, pingSeconds * 1000)
await listen(server)
