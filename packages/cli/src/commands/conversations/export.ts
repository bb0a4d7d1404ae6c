import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { type ExportFormatName, Problem } from '@slipway/protocol/client'
import type { ConversationSource } from '../../conversation/source/source.ts'
import { Progress } from '../../output/progress.ts'
import { print, printResult } from '../../output/terminal.ts'

/** Writes a conversation in a format to standard output or whole into a file. */
export async function exportCommand(
  context: {
    readonly source: ConversationSource
    readonly isJson: boolean
    readonly signal: AbortSignal
  },
  id: string,
  options: {
    readonly output?: string | undefined
    readonly format: ExportFormatName
    readonly meta: boolean
    readonly gzip: boolean
  },
): Promise<void> {
  const { output, format, meta, gzip } = options
  const { source, signal } = context
  const chunks = readWithProgress(await source.exportEvents(id, { format, meta, gzip }), signal)
  if (output === undefined) {
    for await (const chunk of chunks) await print(chunk)
    return
  }
  const size_bytes = await writeFileAtomic(output, chunks)
  await printResult(context.isJson, { output, size_bytes }, `Exported ${size_bytes} bytes to ${output}`)
}

/** Replaces a file atomically; returns its size. */
export async function writeFileAtomic(file: string, chunks: AsyncIterable<Uint8Array>): Promise<number> {
  const temporaryPath = `${file}.${process.pid}.part`
  let sizeBytes = 0
  const countBytes = async function* () {
    for await (const chunk of chunks) {
      sizeBytes += chunk.length
      yield chunk
    }
  }
  try {
    await pipeline(countBytes, createWriteStream(temporaryPath, { flush: true }))
    await rename(temporaryPath, file)
    return sizeBytes
  } catch (error) {
    await rm(temporaryPath, { force: true })
    throw error
  }
}

/** The bytes of a stream, with progress; a broken connection is a readable Error. */
export async function* readWithProgress(
  stream: ReadableStream<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  using progress = new Progress('exported')
  const reader = stream.getReader()
  for (;;) {
    const chunk = await reader.read().catch((error) => {
      if (signal.aborted) throw new Problem('bad_request', 'Stopped before the end.')
      throw new Error('The connection was lost before the end of the log. Try again.', { cause: error })
    })
    if (chunk.done) return
    progress.add(chunk.value.length, 0)
    yield chunk.value
  }
}
