import type { Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import type { EventLog } from '../event-log/event-log.ts'
import type { ConversationRecord } from './conversation-records.ts'

const lineEnd = Buffer.from('\n')
const batchBytes = 256 * 1024

/**
 * The log as it stands now, one event a line in order of position, each line the stored bytes. With `meta` a first
 * line without `kind` that an import understands.
 */
export async function* exportEvents(
  log: EventLog,
  record: ConversationRecord,
  options: { readonly meta: boolean },
): AsyncGenerator<Buffer> {
  if (options.meta) {
    const { id, title, tags } = record
    yield Buffer.from(
      `${JSON.stringify({ conversation_id: id, ...(title === null ? {} : { title }), tags })}\n`,
    )
  }
  for (let position = 0; position < record.head; ) {
    const events = await log.read(record.id, position, Math.min(1000, record.head - position), batchBytes)
    const last = events.at(-1)
    if (last === undefined) return
    position = last.position
    yield Buffer.concat(events.flatMap((event) => [event.bytes, lineEnd]))
  }
}

/** The same bytes as a gzip file. */
export function gzipStream(chunks: AsyncIterable<Buffer>): Readable {
  const gzip = createGzip({ level: 6 })
  writeChunks(chunks, gzip).catch((error: Error) => gzip.destroy(error))
  return gzip
}

async function writeChunks(
  chunks: AsyncIterable<Buffer>,
  gzip: ReturnType<typeof createGzip>,
): Promise<void> {
  for await (const chunk of chunks) {
    if (gzip.destroyed) return
    if (!gzip.write(chunk)) await new Promise((resolve) => gzip.once('drain', resolve).once('close', resolve))
  }
  gzip.end()
}
