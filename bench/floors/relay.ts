import { createServer } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { json } from 'node:stream/consumers'
import { WebSocketServer } from 'ws'
import { listen } from './listen.ts'

/**
 * The least that passes a message on to a model: `node relay.ts <directory> <address of the model>`. Each POST
 * is one durable row of `node:sqlite`; then the model is asked with a bare `fetch`, and every chunk of its
 * answer goes to all sockets, at last `end`.
 */
const [directory = '', model = ''] = process.argv.slice(2)
const database = new DatabaseSync(join(directory, 'relay.db'))
database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE message (body TEXT)')
const insert = database.prepare('INSERT INTO message VALUES (?)')

const server = createServer(async (request, response) => {
  const body = JSON.stringify(await json(request))
  insert.run(body)
  response.writeHead(200, { 'content-type': 'application/json' }).end('{"success":true}')
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body }
  const answer = await fetch(`${model}/v1/chat/completions`, init)
  for await (const chunk of answer.body ?? []) send(Buffer.from(chunk))
  send(Buffer.from('end'))
})
const sockets = new WebSocketServer({ server, perMessageDeflate: false })
await listen(server)

function send(bytes: Buffer): void {
  for (const client of sockets.clients) client.send(bytes, { binary: false })
}
