import { toBuffer } from '../database/database.ts'

/**
 * The stored form of an event's JSON text. Usually it is the text. Where the text has long base64 runs
 * (pictures and other binary content), the runs are rows of the table `blob`, and the stored form is the byte
 * 1, which no JSON text begins with, a header line and the text without them.
 */
export interface SplitBody {
  /** The text without the runs. */
  readonly rest: Buffer
  readonly runs: readonly BlobRun[]
}

export interface BlobRun {
  /** Where the run begins in the whole text, in bytes. */
  readonly start: number
  /** Decoded. */
  readonly bytes: Buffer
}

/** `blobs` has where each run begins in the whole text, and the number of its blob. */
interface Header {
  /** Length of the whole text in bytes. */
  readonly size: number
  readonly blobs: readonly (readonly [start: number, blob: number])[]
}

/** Characters of the shortest run that becomes a blob. */
export const minRunLength = 8_192
const splitMark = 1
const lineEnd = 0x0a
const padding = 0x3d
/** A run of `minRunLength` has a character at a multiple of this. */
const probeStep = minRunLength / 2

const isBase64 = new Uint8Array(256)
for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
  isBase64[character.charCodeAt(0)] = 1

/** Undefined for a text without long base64 runs. Time is linear in its length. */
export function splitBody(text: Buffer): SplitBody | undefined {
  const runs: BlobRun[] = []
  const rest: Buffer[] = []
  let kept = 0
  for (let probe = probeStep; probe < text.length; probe += probeStep) {
    if (isBase64[text[probe] ?? 0] === 0) continue
    let start = probe
    while (start > kept && isBase64[text[start - 1] ?? 0] === 1) start--
    let end = probe
    while (isBase64[text[end] ?? 0] === 1) end++
    probe = end - (end % probeStep)
    for (let padded = 0; padded < 2 && text[end] === padding; padded++) end++
    // Whole groups of four characters: what is left of others stays in the text.
    end -= (end - start) % 4
    if (end - start < minRunLength) continue
    const encoded = text.subarray(start, end)
    const bytes = Buffer.from(encoded.toString('latin1'), 'base64')
    if (!Buffer.from(bytes.toString('base64'), 'latin1').equals(encoded)) continue
    runs.push({ start, bytes })
    rest.push(text.subarray(kept, start))
    kept = end
  }
  if (runs.length === 0) return undefined
  return { rest: Buffer.concat([...rest, text.subarray(kept)]), runs }
}

/** @param blobs - the numbers of the blobs of the runs */
export function joinHeader(text: Buffer, { rest, runs }: SplitBody, blobs: readonly number[]): Buffer {
  const places = runs.map(({ start }, index) => [start, blobs[index]])
  const header = Buffer.from(JSON.stringify({ size: text.length, blobs: places }))
  return Buffer.concat([Buffer.of(splitMark), header, Buffer.of(lineEnd), rest])
}

export function isSplit(stored: Uint8Array): boolean {
  return stored[0] === splitMark
}

/**
 * The text of a stored form. Where the form or a blob is damaged, the result is another text or the stored
 * form itself: the checksum of the event tells.
 */
export function wholeBody(stored: Buffer, findBlob: (number: number) => Uint8Array | undefined): Buffer {
  if (!isSplit(stored)) return stored
  const headerEnd = stored.indexOf(lineEnd)
  const header = parseHeader(stored.subarray(1, Math.max(1, headerEnd)))
  if (header === undefined) return stored
  const parts: Buffer[] = []
  let length = 0
  let at = headerEnd + 1
  const push = (part: Buffer) => {
    parts.push(part)
    length += part.length
  }
  for (const [start, blob] of header.blobs) {
    const bytes = findBlob(blob)
    if (bytes === undefined || start < length || at + start - length > stored.length) return stored
    const next = at + start - length
    push(stored.subarray(at, next))
    at = next
    push(Buffer.from(toBuffer(bytes).toString('base64'), 'latin1'))
  }
  push(stored.subarray(at))
  return Buffer.concat(parts, length)
}

function parseHeader(text: Buffer): Header | undefined {
  try {
    const header: Header = JSON.parse(text.toString())
    return header.blobs.every((place) => place.every(Number.isSafeInteger)) ? header : undefined
  } catch {
    return undefined
  }
}

/** SQL: the length of the whole text of a stored form in a column, in bytes. */
export function wholeLengthSql(column: string): string {
  const header = `CAST(substr(${column}, 2, instr(${column}, x'0A') - 2) AS TEXT)`
  return `CASE substr(${column}, 1, 1) WHEN x'01' THEN json_extract(${header}, '$.size') ELSE length(${column}) END`
}
