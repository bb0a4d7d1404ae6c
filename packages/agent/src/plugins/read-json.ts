import { exceedsMaxDepth } from '@slipway/protocol'
import { readSmallFile } from '../skills/small-file.ts'

const maxBytes = 1024 * 1024

/**
 * The value of a small JSON file that somebody else wrote; undefined when it is not there. Never throws: what is wrong is a
 * sentence that begins with a verb. `within`: a real directory that it must be in.
 */
export async function readJson(
  path: string,
  within: string,
): Promise<{ readonly value: unknown } | { readonly fault: string } | undefined> {
  const file = await readSmallFile(path, { maxBytes, within })
  if (file === undefined || 'fault' in file) return file
  if (file.isTruncated) return { fault: 'is larger than 1 MiB' }
  if (exceedsMaxDepth(Buffer.from(file.text))) return { fault: 'nests too deep' }
  try {
    return { value: JSON.parse(file.text) }
  } catch {
    return { fault: 'is not JSON' }
  }
}

/** A file of the first name that is there. */
export async function readFirstJson(
  directory: string,
  names: readonly string[],
): Promise<{ readonly name: string; readonly value: unknown } | { readonly fault: string } | undefined> {
  for (const name of names) {
    const read = await readJson(`${directory}/${name}`, directory)
    if (read === undefined) continue
    return 'fault' in read ? { fault: `${name}: ${read.fault}` } : { name, value: read.value }
  }
  return undefined
}
