import { createServer } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { listen } from './listen.ts'

/**
 * Searches every event in order for a text, up to a hundred matches: `node scan.ts <data directory>`,
 * `/?body=text`.
 */
const database = new DatabaseSync(join(process.argv[2] ?? '', 'log.db'), { readOnly: true })
const hits = database.prepare(
  "SELECT CAST(body AS TEXT) AS text FROM event WHERE CAST(body AS TEXT) LIKE '%' || ? || '%' ORDER BY rowid LIMIT 100",
)

await listen(
  createServer((request, response) => {
    const body = new URL(request.url ?? '', 'http://localhost').searchParams.get('body') ?? ''
    const bytes = Buffer.from(
      `[${hits
        .all(body)
        .map((row) => row.text)
        .join(',')}]`,
    )
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length })
    response.end(bytes)
  }),
)
