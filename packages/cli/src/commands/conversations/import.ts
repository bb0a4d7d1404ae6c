import { stat } from 'node:fs/promises'
import { CallError } from '@slipway/client'
import type { ImportMeta } from '@slipway/protocol'
import { Problem } from '@slipway/protocol/client'
import { parseJson } from '@slipway/shared/json'
import { errorText } from '@slipway/shared/text'
import type { CommandContext } from '../../context/command-context.ts'
import { Progress } from '../../output/progress.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { printNote, printResult } from '../../output/terminal.ts'
import { isZip, openEventArchive, openEventFolder } from '../../parsing/event-files.ts'
import { gunzipIfNeeded, openSource, prepend, readAhead, type SourceFile } from '../../parsing/source-file.ts'
import { toReadableStream } from '../../parsing/to-readable-stream.ts'

type MetaFlags = { readonly [M in keyof ImportMeta]?: ImportMeta[M] }

/**
 * Imports a file of events, one a line, plain or gzip (`-` is standard input), or a conversation as files: a
 * folder or an archive.
 */
export async function importCommand(
  context: CommandContext,
  file: string,
  options: { readonly meta: MetaFlags; readonly keepUnknown: boolean },
): Promise<void> {
  const source = await openImport(file)
  let readError: unknown
  let addedLines = 0
  let eventsBefore = 0
  const upload = async function* (): AsyncGenerator<Buffer> {
    using progress = new Progress('sent', source.sizeBytes)
    try {
      const plain = gunzipIfNeeded(countBytes(source.chunks, (bytes) => progress.add(bytes, 0)))
      const { chunks, isAdded, id } = await withMetaLine(plain, options.meta)
      eventsBefore = id === undefined ? 0 : await countEvents(context, id)
      addedLines = isAdded ? 1 : 0
      for await (const chunk of chunks) {
        progress.add(0, countNewlines(chunk))
        yield chunk
      }
    } catch (error) {
      readError =
        error instanceof Problem
          ? error
          : new Problem('bad_request', `Cannot read ${file}: ${errorText(error)}`)
      throw error
    }
  }
  try {
    const { signal } = context
    const unknown = options.keepUnknown ? ('keep' as const) : undefined
    const done = await context.client.importEvents(toReadableStream(upload()), { unknown, signal })
    const id = done.conversation_id
    const added = eventsBefore === 0 ? done.imported : (await countEvents(context, id)) - eventsBefore
    const known = added < done.imported ? `; ${done.imported - added} were there already` : ''
    await printResult(context.isJson, done, `Imported ${added} events into conversation ${id}${known}`)
  } catch (error) {
    if (context.signal.aborted) throw new Problem('bad_request', 'Stopped. Nothing was imported.')
    if (readError !== undefined) throw readError
    throw reportIssues(error, file, addedLines) ?? error
  } finally {
    source.close()
  }
}

async function openImport(file: string): Promise<SourceFile> {
  if (file === '-') return await openSource(file)
  const info = await stat(file).catch(() => undefined)
  const isFolder = info?.isDirectory() === true
  if (!isFolder && !(info?.isFile() && (await isZip(file)))) return await openSource(file)
  const { meta, chunks, close } = await (isFolder ? openEventFolder(file) : openEventArchive(file))
  const line = Object.keys(meta).length === 0 ? '' : `${JSON.stringify(meta)}\n`
  return { chunks: prepend(Buffer.from(line), chunks), close }
}

/** 0 for a conversation that does not exist, and for an id that is none, which the import refuses. */
async function countEvents({ client, signal }: CommandContext, id: string): Promise<number> {
  return await client.call('countEvents', { params: { conversation_id: id }, signal }).catch((error) => {
    if (error instanceof CallError && (error.status === 404 || error.status === 422)) return 0
    throw error
  })
}

async function* countBytes(
  chunks: AsyncIterable<Buffer>,
  count: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    count(chunk.length)
    yield chunk
  }
}

/** Adds the line that names the conversation, or merges `meta` into it; `id` is the one that it names. */
async function withMetaLine(chunks: AsyncIterable<Buffer>, meta: MetaFlags) {
  const { first, rest } = await readAhead(chunks, (bytes) => bytes.includes(10) || bytes.length > 64 * 1024)
  const end = first.includes(10) ? first.indexOf(10) : first.length
  const fileMeta = parseMetaLine(first.subarray(0, end))
  const header = { ...fileMeta, ...meta }
  const id = typeof header.conversation_id === 'string' ? header.conversation_id : undefined
  if (Object.keys(meta).length === 0) return { chunks: prepend(first, rest), isAdded: false, id }
  const line = Buffer.from(`${JSON.stringify(header)}\n`)
  const body = fileMeta === undefined ? first : first.subarray(end + 1)
  return { chunks: prepend(Buffer.concat([line, body]), rest), isAdded: fileMeta === undefined, id }
}

/** The members of a first line that is not an event. */
function parseMetaLine(line: Buffer): { conversation_id?: unknown } | undefined {
  const value = parseJson(line.toString('utf8').replace(/^\ufeff/, ''))
  return typeof value === 'object' && value !== null && !Object.hasOwn(value, 'kind') ? value : undefined
}

function countNewlines(chunk: Buffer): number {
  let count = 0
  for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, at + 1)) count++
  return count
}

/** Prints each issue as `FILE:LINE: place: message` and returns the error to report. */
function reportIssues(error: unknown, file: string, addedLines: number): Problem | undefined {
  if (!(error instanceof CallError) || error.issues === undefined) return undefined
  const name = file === '-' ? 'stdin' : file
  for (const { loc, msg } of error.issues.slice(0, 20)) {
    const [part, line, ...path] = loc
    const isLine = part === 'body' && typeof line === 'number'
    const inFile = line === addedLines ? 'in the flags' : `${name}:${Number(line) - addedLines}`
    const location = isLine ? inFile : `${name}: ${loc.join('.')}`
    const words = isLine ? msg.replace(/^line \d+: /, '').replace(/\. [^.]*\?unknown=keep$/, '') : msg
    printNote(sanitizeLine(`${location}: ${path.length === 0 ? '' : `${path.join('.')}: `}${words}`))
  }
  const isReadable = error.issues.every(({ type }) => type !== 'json_invalid')
  const advice = isReadable
    ? 'Nothing was imported. --keep-unknown also takes events of other versions.'
    : 'Nothing was imported: each line should be one event as JSON, as "slipway export" writes it.'
  return new Problem('invalid', error.status === 422 ? advice : error.detail)
}
