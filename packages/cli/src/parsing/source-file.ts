import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { Problem } from '@slipway/protocol/client'
import { errorText } from '@slipway/shared/text'

export interface SourceFile {
  readonly chunks: AsyncIterable<Buffer>
  readonly sizeBytes?: number
  close(): void
}

/** A file that a person names; `-` is standard input. */
export async function openSource(file: string): Promise<SourceFile> {
  if (file === '-') return { chunks: process.stdin, close: () => void process.stdin.destroy() }
  const info = await stat(file).catch((error) => {
    throw new Problem('not_found', `Cannot read ${file}: ${errorText(error)}`)
  })
  if (info.isDirectory()) throw new Problem('bad_request', `Cannot read ${file}: it is a directory`)
  const stream = createReadStream(file, { highWaterMark: 256 * 1024 })
  return { chunks: stream, sizeBytes: info.size, close: () => void stream.destroy() }
}

/** Joins chunks until `isEnough`; returns them and the rest. */
export async function readAhead(chunks: AsyncIterable<Buffer>, isEnough: (first: Buffer) => boolean) {
  const iterator = chunks[Symbol.asyncIterator]()
  const chunksRead: Buffer[] = []
  let first = Buffer.alloc(0)
  for (let next = await iterator.next(); !next.done; next = await iterator.next()) {
    chunksRead.push(next.value)
    first = Buffer.concat(chunksRead)
    if (isEnough(first)) break
  }
  return { first, rest: { [Symbol.asyncIterator]: () => iterator } }
}

/**
 * The same bytes, or what a gzip file holds, known by its first two bytes. zlib leaves out what follows a NUL
 * behind a member, where other programs read on: such a file is refused.
 */
export async function* gunzipIfNeeded(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const { first, rest } = await readAhead(chunks, (bytes) => bytes.length >= 2)
  if (first[0] !== 0x1f || first[1] !== 0x8b) return yield* prepend(first, rest)
  let size = 0
  const counted = async function* () {
    for await (const chunk of prepend(first, rest)) {
      size += chunk.length
      yield chunk
    }
  }
  const gunzip = createGunzip()
  yield* pipeline(counted(), gunzip, () => undefined)
  if (gunzip.bytesWritten !== size) throw new Error('there are bytes behind the gzip data')
}

export async function* prepend(first: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  if (first.length > 0) yield first
  yield* rest
}
