import { constants, type Stats } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { Problem } from '@slipway/protocol'
import { errorCode } from '@slipway/shared/fs'
import { inRealDirectory, lstat, openReal } from '@slipway/shared/tool-files'

const blockBytes = 512
const readBytes = 256 * 1024
/** Of a name and of a size in the plain header; longer ones stand in an extended one. */
const maxNameBytes = 100
const maxPlainSize = 0o77777777777
/** The file was removed, is no file any more, or has a link in its path by now. */
const goneCodes = ['ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR', 'ENXIO']

interface TarSource {
  /** Real path. */
  readonly directory: string
  /** What the directory is called in the archive. */
  readonly name: string
  /** From the directory; those of directories end with a slash. */
  readonly paths: readonly string[]
  /** Files that are made here, by name, from what was packed before them. */
  readonly texts: Readonly<Record<string, (packed: Packed) => string>>
}

/** What of the directory is in the archive. */
export interface Packed {
  readonly files: number
  readonly bytes: number
}

/**
 * The gzip tar stream (pax) of files and directories, each opened without following a link in any part of its
 * path. What has gone since it was listed is left out; a file that becomes shorter is filled with zeros.
 * Rejects with a Problem `conflict` when a file cannot be read.
 */
export async function* tarStream(source: TarSource, signal: AbortSignal): AsyncGenerator<Buffer> {
  const gzip = createGzip()
  const packed = pipeline(tarEntries(source), gzip, { signal })
  // Its error comes out of the stream.
  packed.catch(() => undefined)
  try {
    for await (const chunk of gzip) yield chunk
  } finally {
    gzip.destroy()
  }
}

async function* tarEntries({ directory, name, paths, texts }: TarSource): AsyncGenerator<Buffer> {
  let packed: Packed = { files: 0, bytes: 0 }
  for (const path of ['/', ...paths.map((path) => `/${path}`)]) {
    try {
      if (path.endsWith('/')) yield* directoryEntry(join(directory, path), name + path)
      else {
        const size = yield* fileEntry(join(directory, path), name + path)
        if (size !== undefined) packed = { files: packed.files + 1, bytes: packed.bytes + size }
      }
    } catch (error) {
      if (goneCodes.includes(errorCode(error) ?? '')) continue
      if (errorCode(error) === undefined) throw error
      throw new Problem('conflict', 'The directory could not be read to its end')
    }
  }
  for (const [file, text] of Object.entries(texts)) {
    const bytes = Buffer.from(text(packed))
    const now = Date.now()
    yield header(`${name}/${file}`, { mode: 0o600, uid: 0, gid: 0, mtimeMs: now, size: bytes.length })
    yield padded(bytes)
  }
  yield Buffer.alloc(2 * blockBytes)
}

async function* directoryEntry(path: string, name: string): AsyncGenerator<Buffer> {
  const real = path.replace(/(?<=.)\/$/, '')
  const stats = await inRealDirectory(real, (held) => lstat(held))
  if (stats.isDirectory()) yield header(name, { ...ownMembers(stats), size: 0 })
}

/** Returns the size of the file, undefined when it is none. */
async function* fileEntry(real: string, name: string): AsyncGenerator<Buffer, number | undefined> {
  await using file = await openReal(real, constants.O_RDONLY | constants.O_NONBLOCK)
  const stats = await file.stat()
  if (!stats.isFile()) return undefined
  const { size } = stats
  yield header(name, { ...ownMembers(stats), size })
  let at = 0
  while (at < size) {
    const block = Buffer.allocUnsafe(Math.min(readBytes, size - at))
    const { bytesRead } = await file.read(block, 0, block.length, at)
    if (bytesRead === 0) block.fill(0)
    const bytes = bytesRead === 0 ? block : block.subarray(0, bytesRead)
    at += bytes.length
    yield bytes
  }
  yield Buffer.alloc(-size & (blockBytes - 1))
  return size
}

interface EntryMembers {
  readonly mode: number
  readonly uid: number
  readonly gid: number
  readonly mtimeMs: number
  readonly size: number
}

function ownMembers({ mode, uid, gid, mtimeMs }: Stats): Omit<EntryMembers, 'size'> {
  return { mode: mode & 0o7777, uid, gid, mtimeMs }
}

/** The header of an entry, after an extended one for what does not fit into it. */
function header(name: string, members: EntryMembers): Buffer {
  const extended = {
    ...(Buffer.byteLength(name) > maxNameBytes || /[^ -~]/.test(name) ? { path: name } : {}),
    ...(members.size > maxPlainSize ? { size: String(members.size) } : {}),
  }
  const records = Buffer.concat(Object.entries(extended).map(([key, value]) => paxRecord(key, value)))
  const kind = name.endsWith('/') ? '5' : '0'
  const own = plainHeader(name, kind, members)
  if (records.length === 0) return own
  return Buffer.concat([
    plainHeader('pax', 'x', { ...members, mode: 0o600, size: records.length }),
    padded(records),
    own,
  ])
}

/** `<length> <key>=<value>\n`, with the length of the whole record. */
function paxRecord(key: string, value: string): Buffer {
  const rest = Buffer.from(` ${key}=${value}\n`)
  let length = rest.length
  while (length !== rest.length + String(length).length) length = rest.length + String(length).length
  return Buffer.concat([Buffer.from(String(length)), rest])
}

function plainHeader(name: string, kind: string, { mode, uid, gid, mtimeMs, size }: EntryMembers): Buffer {
  const block = Buffer.alloc(blockBytes)
  const octal = (value: number, at: number, digits: number) =>
    block.write(
      `${Math.max(0, Math.floor(value)).toString(8).slice(-digits).padStart(digits, '0')}\0`,
      at,
      'latin1',
    )
  Buffer.from(name).copy(block, 0, 0, maxNameBytes)
  octal(mode, 100, 7)
  octal(Math.min(uid, 0o7777777), 108, 7)
  octal(Math.min(gid, 0o7777777), 116, 7)
  octal(Math.min(size, maxPlainSize), 124, 11)
  octal(mtimeMs / 1000, 136, 11)
  block.write('        ', 148, 'latin1')
  block.write(`${kind}`, 156, 'latin1')
  block.write('ustar\x0000', 257, 'latin1')
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return block
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(-bytes.length & (blockBytes - 1))])
}
