import { createServer } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { listen } from './listen.ts'

/**
 * Streams every event of a log as lines, a hundred rows in a turn of the event loop, and answers `/health`
 * meanwhile: `node export.ts <data directory>`.
 */
const database = new DatabaseSync(join(process.argv[2] ?? '', 'log.db'), { readOnly: true })
const rows = database.prepare('SELECT rowid AS row, body FROM event WHERE rowid > ? ORDER BY rowid LIMIT 100')
const newLine = Buffer.from('\n')

async function* lines(): AsyncGenerator<Buffer> {
  for (let last = 0; ; ) {
    // Without it a connection that takes everything at once keeps `/health` waiting to its end.
    await nextTurn()
    const pieces: Uint8Array[] = []
    for (const { row, body } of rows.all(last)) {
      if (!(body instanceof Uint8Array)) throw new Error('a body is not a blob')
      pieces.push(body, newLine)
      last = Number(row)
    }
    if (pieces.length === 0) return
    yield Buffer.concat(pieces)
  }
}

await listen(
  createServer((request, response) => {
    if (request.url === '/health') return response.end('{"status":"ok"}')
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    return pipeline(Readable.from(lines()), response)
  }),
)
