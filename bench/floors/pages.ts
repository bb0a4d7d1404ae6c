import { createServer } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { listen } from './listen.ts'

/**
 * The floor of pages: `/again` sends one prepared page, `/<n>` reads a hundred rows from the `n`th on by
 * their row ids, joins them and sends them. `node pages.ts <data directory>`; the log has one conversation.
 */
const database = new DatabaseSync(join(process.argv[2] ?? '', 'log.db'), { readOnly: true })
const first = Number(database.prepare('SELECT min(rowid) AS first FROM event').get()?.first)
const rows = database.prepare('SELECT rowid, body FROM event WHERE rowid >= ? ORDER BY rowid LIMIT 100')
rows.setReturnArrays(true)

const open = Buffer.from('{"items":[')
const comma = Buffer.from(',')
const close = Buffer.from('],"next_page_id":"00000000000000000000000000000000"}')

function page(start: number): Buffer {
  const pieces: Buffer[] = [open]
  for (const row of rows.iterate(first + start)) {
    const body: unknown = Reflect.get(row, 1)
    if (!(body instanceof Uint8Array)) throw new Error('a body is not a blob')
    if (pieces.length > 1) pieces.push(comma)
    pieces.push(Buffer.from(body.buffer, body.byteOffset, body.byteLength))
  }
  pieces.push(close)
  return Buffer.concat(pieces)
}

const ready = page(0)
await listen(
  createServer((request, response) => {
    const bytes = request.url === '/again' ? ready : page(Number(request.url?.slice(1)))
    response.writeHead(200, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': bytes.length,
    })
    response.end(bytes)
  }),
)
