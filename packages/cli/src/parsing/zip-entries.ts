/** A file in a zip. */
export interface ZipEntry {
  readonly name: string
  readonly sizeBytes: number
}

const endSignature = 0x06054b50
const entrySignature = 0x02014b50
const endBytes = 22

/** The files of a zip, from its directory at the end. Throws an Error when it is none, or one with more than 65,534 files. */
export function zipEntries(zip: Buffer): ZipEntry[] {
  const end = endOf(zip)
  const count = zip.readUInt16LE(end + 10)
  if (count === 0xffff) throw new Error('the zip has too many files')
  const entries: ZipEntry[] = []
  let at = zip.readUInt32LE(end + 16)
  for (let index = 0; index < count; index++) {
    if (zip.readUInt32LE(at) !== entrySignature) throw new Error('the directory of the zip is damaged')
    const nameBytes = zip.readUInt16LE(at + 28)
    const name = zip.toString('utf8', at + 46, at + 46 + nameBytes)
    entries.push({ name, sizeBytes: zip.readUInt32LE(at + 24) })
    at += 46 + nameBytes + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32)
  }
  return entries
}

/** Where its last record begins; a comment may follow it. */
function endOf(zip: Buffer): number {
  for (let at = zip.length - endBytes; at >= 0 && at >= zip.length - endBytes - 0xffff; at--) {
    if (zip.readUInt32LE(at) === endSignature) return at
  }
  throw new Error('this is no zip')
}
