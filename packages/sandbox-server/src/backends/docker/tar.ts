/** A directory in a tar: `name` without a slash at the end, relative to where the tar is unpacked. */
export interface TarDirectory {
  readonly name: string
  readonly userId: number
}

const blockBytes = 512

/** A tar of directories alone, each with mode 755 and its owner; names of at most 99 bytes. */
export function createDirectoryTar(directories: readonly TarDirectory[]): Buffer {
  return Buffer.concat([...directories.map(tarHeader), Buffer.alloc(2 * blockBytes)])
}

function tarHeader({ name, userId }: TarDirectory): Buffer {
  const block = Buffer.alloc(blockBytes)
  const bytes = Buffer.from(`${name}/`)
  if (bytes.length > 100) throw new Error(`A path of ${bytes.length} bytes does not fit into a tar header`)
  bytes.copy(block, 0)
  block.write(octal(0o755, 7), 100)
  block.write(octal(userId, 7), 108)
  block.write(octal(userId, 7), 116)
  block.write(octal(0, 11), 124)
  block.write(octal(0, 11), 136)
  block.write('        5', 148)
  block.write('ustar\x0000', 257)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${octal(sum, 6)}\0 `, 148)
  return block
}

const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0')
