import { type BigIntStats, constants } from 'node:fs'
import { open as openFile } from 'node:fs/promises'
import { Problem } from '@slipway/protocol'
import type { Reply } from '../core/handler.ts'
import { contentTypeForPath, contentTypeForSample } from './content-types.ts'

const blockBytes = 256 * 1024
/** The range in which git looks for a NUL. */
const sampleBytes = 8_000

/** A resolved file: a path without links, and its stats. */
export interface ResolvedFile {
  readonly path: string
  readonly stats: BigIntStats
}

interface FileReplyOptions {
  readonly header: (name: string) => string | undefined
  /** Default: by the extension, else by the first bytes. */
  readonly contentType?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Opens it with the rights of somebody else than this process. */
  readonly open?: OpenFile
}

type OpenFile = (path: string, flags: number) => ReturnType<typeof openFile>

/**
 * The reply to a GET of a file: its bytes with ETag, 304 when the client has them, 206 for one range (several
 * are answered with the whole, as RFC 9110 allows), 416 for a range beyond the end. A file that shrinks or is
 * replaced while it is sent cuts the connection.
 */
export async function fileReply(file: ResolvedFile, options: FileReplyOptions): Promise<Reply> {
  const { header, open = openFile } = options
  const size = Number(file.stats.size)
  const etag = `"${file.stats.ctimeNs.toString(36)}-${file.stats.ino.toString(36)}-${size.toString(36)}"`
  const headers = {
    'cache-control': 'no-cache',
    ...options.headers,
    etag,
    'last-modified': new Date(Number(file.stats.mtimeMs)).toUTCString(),
    'x-content-type-options': 'nosniff',
  }
  if (matchesEtag(header('if-none-match'), etag)) return { status: 304, bytes: Buffer.alloc(0), headers }
  const contentType =
    options.contentType ?? contentTypeForPath(file.path) ?? (await detectContentType(file, open))
  // Files of the kernel report no size; their content ends where reading ends.
  if (size === 0)
    return { contentType, headers, chunks: readRange(file.path, 0, Number.POSITIVE_INFINITY, { open }) }
  const bounds = parseRange(requestedRange(header, etag), size)
  const accepts = { ...headers, 'accept-ranges': 'bytes' }
  if (bounds === 'beyond') {
    const detail = { detail: 'The range lies beyond the end of the file' }
    return { status: 416, json: detail, headers: { ...accepts, 'content-range': `bytes */${size}` } }
  }
  const { start, end } = bounds ?? { start: 0, end: size }
  const length = { 'content-length': String(end - start) }
  const chunks = readRange(file.path, start, end, { open })
  if (bounds === undefined) return { contentType, headers: { ...accepts, ...length }, chunks }
  const range = { 'content-range': `bytes ${start}-${end - 1}/${size}` }
  return { status: 206, contentType, headers: { ...accepts, ...length, ...range }, chunks }
}

function matchesEtag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  return header.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag)
}

/** Empty without a range, or when the range is of another version of the file. */
function requestedRange(header: FileReplyOptions['header'], etag: string): string {
  const condition = header('if-range')
  return ((condition === undefined || condition === etag) && header('range')) || ''
}

/** The bounds of a Range header; undefined when it is not understood, so that the whole file is sent. */
function parseRange(range: string, size: number): { start: number; end: number } | 'beyond' | undefined {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(range.replaceAll(' ', '')) ?? []
  if (first === '' && last === '') return undefined
  if (first === '') {
    return Number(last) === 0 ? 'beyond' : { start: Math.max(0, size - Number(last)), end: size }
  }
  const start = Number(first)
  if (last !== '' && Number(last) < start) return undefined
  if (start >= size) return 'beyond'
  return { start, end: last === '' ? size : Math.min(size, Number(last) + 1) }
}

async function detectContentType({ path }: ResolvedFile, open: OpenFile): Promise<string> {
  for await (const sample of readRange(path, 0, sampleBytes, { open, isWhole: false }))
    return contentTypeForSample(sample)
  return contentTypeForSample(Buffer.alloc(0))
}

/** Reads a range. The file is opened with the first block, so that a HEAD request opens nothing. */
async function* readRange(
  path: string,
  start: number,
  end: number,
  { open, isWhole = true }: { readonly open: OpenFile; readonly isWhole?: boolean },
): AsyncGenerator<Buffer> {
  // A link may have replaced the file, and a pipe would wait for a writer.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  await using file = await open(path, flags).catch(() => {
    throw new Problem('not_found', 'There is no such file')
  })
  if (!(await file.stat()).isFile()) throw new Problem('not_found', 'There is no such file')
  let at = start
  while (at < end) {
    const block = Buffer.allocUnsafe(Math.min(blockBytes, end - at))
    const { bytesRead } = await file.read(block, 0, block.length, at)
    if (bytesRead === 0) break
    at += bytesRead
    yield block.subarray(0, bytesRead)
  }
  if (isWhole && at < end && end !== Number.POSITIVE_INFINITY)
    throw new Problem('conflict', 'The file became shorter while it was read')
}
