import { blocksOf } from './find-text.ts'
import type { Finding, Rule } from './rule.ts'
import type { PictureBlock } from './wire-request.ts'

type Find = Rule['find']

interface PictureFacts {
  /** By the first bytes; undefined for a format that no provider takes. */
  readonly type: string | undefined
  readonly width: number
  readonly height: number
  /** It ends as its format does. */
  readonly isWhole: boolean
}

const known = new Map<string, PictureFacts>()

function factsOf(data: string): PictureFacts {
  const found = known.get(data) ?? readFacts(Buffer.from(data, 'base64'))
  known.set(data, found)
  return found
}

function readFacts(bytes: Buffer): PictureFacts {
  const has = (text: string, at = 0) => bytes.toString('latin1', at, at + text.length) === text
  const endsWith = (text: string) => bytes.toString('latin1', Math.max(0, bytes.length - 64)).includes(text)
  if (has('\x89PNG\r\n\x1a\n') && bytes.length > 24) {
    const edges = { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) }
    return { type: 'image/png', ...edges, isWhole: endsWith('IEND') }
  }
  if (has('GIF8') && bytes.length > 10) {
    const edges = { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) }
    return { type: 'image/gif', ...edges, isWhole: bytes.at(-1) === 0x3b }
  }
  if (has('RIFF') && has('WEBP', 8)) {
    const isWhole = bytes.readUInt32LE(4) + 8 <= bytes.length
    return { type: 'image/webp', width: 1, height: 1, isWhole }
  }
  if (has('\xff\xd8\xff')) return { type: 'image/jpeg', ...jpegEdges(bytes), isWhole: endsWith('\xff\xd9') }
  return { type: undefined, width: 0, height: 0, isWhole: false }
}

function jpegEdges(bytes: Buffer): { readonly width: number; readonly height: number } {
  for (let at = 2; at + 9 < bytes.length && bytes[at] === 0xff; at += 2 + bytes.readUInt16BE(at + 2)) {
    const marker = bytes[at + 1] ?? 0
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)
    if (isFrame) return { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) }
  }
  return { width: 0, height: 0 }
}

type Inline = PictureBlock & { readonly data: string }

function inline(find: (picture: Inline, facts: PictureFacts, count: number) => string | undefined): Find {
  return (request) => {
    const pictures = blocksOf(request, 'picture')
    return pictures.flatMap((picture): Finding[] => {
      const { data, at } = picture
      const what = data === undefined ? undefined : find({ ...picture, data }, factsOf(data), pictures.length)
      return what === undefined ? [] : [{ at, what }]
    })
  }
}

/** Pictures of other formats than these. */
export function otherPictures(types: readonly string[]): Find {
  return inline((_, { type }) =>
    type !== undefined && types.includes(type) ? undefined : (type ?? 'an unknown format'),
  )
}

export const brokenPictures = inline((_, { isWhole }) => (isWhole ? undefined : 'the data ends too early'))

/** Pictures whose declared type is not that of their bytes. */
export const misnamedPictures = inline(({ mediaType }, { type }) =>
  mediaType === type ? undefined : `${mediaType} for ${type}`,
)

/** `many`: the limit of an edge when there are more than 20 pictures. */
export function largeEdges(max: number, many = max): Find {
  return inline((_, { width, height }, count) =>
    Math.max(width, height) > (count > 20 ? many : max) ? `${width} x ${height}` : undefined,
  )
}

export function heavyPictures(maxChars: number): Find {
  return inline(({ data }) => (data.length > maxChars ? `${data.length} characters` : undefined))
}

export function tooManyPictures(max: number): Find {
  return (request) => {
    const { length } = blocksOf(request, 'picture')
    return length > max ? [{ at: '', what: String(length) }] : []
  }
}

export const linkedPictures: Find = (request) =>
  blocksOf(request, 'picture')
    .filter(({ data }) => data === undefined)
    .map(({ at }) => ({ at, what: 'an address' }))
