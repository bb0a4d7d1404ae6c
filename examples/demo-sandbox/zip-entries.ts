/** A file in a zip. */
export interface ZipEntry {
  readonly name: string
  readonly sizeBytes: number
}

const endSignature = 0x06054b50
const entrySignature = 0x02014b50
const endBytes = 22

/**
 * The files of a zip, from its central directory. Throws an Error when it is not a zip, or has more than
 * 65,534 files.
 */
export function listZipEntries(zip: Buffer): ZipEntry[] {
  const end = findEndRecord(zip)
  const count = zip.readUInt16LE(end + 10)
  if (count === 0xffff) throw new Error('the zip has too many files')
  const entries: ZipEntry[] = []
  let offset = zip.readUInt32LE(end + 16)
  for (let index = 0; index < count; index++) {
    if (zip.readUInt32LE(offset) !== entrySignature) throw new Error('the directory of the zip is damaged')
    const nameBytes = zip.readUInt16LE(offset + 28)
    const name = zip.toString('utf8', offset + 46, offset + 46 + nameBytes)
    entries.push({ name, sizeBytes: zip.readUInt32LE(offset + 24) })
    offset += 46 + nameBytes + zip.readUInt16LE(offset + 30) + zip.readUInt16LE(offset + 32)
  }
  return entries
}

/** The offset of the end record; a comment may follow it. */
function findEndRecord(zip: Buffer): number {
  for (
    let offset = zip.length - endBytes;
    offset >= 0 && offset >= zip.length - endBytes - 0xffff;
    offset--
  ) {
    if (zip.readUInt32LE(offset) === endSignature) return offset
  }
  throw new Error('not a zip')
}
