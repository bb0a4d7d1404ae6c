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
): Promise<{ readonly value: unknown } | { readonly issue: string } | undefined> {
  const file = await readSmallFile(path, { maxBytes, within })
  if (file === undefined || 'issue' in file) return file
  if (file.isTruncated) return { issue: 'is larger than 1 MiB' }
  if (exceedsMaxDepth(Buffer.from(file.text))) return { issue: 'nests too deep' }
  try {
    return { value: JSON.parse(file.text) }
  } catch {
    return { issue: 'is not JSON' }
  }
}

/** A file of the first name that is there. */
export async function readFirstJson(
  directory: string,
  names: readonly string[],
): Promise<{ readonly name: string; readonly value: unknown } | { readonly issue: string } | undefined> {
  for (const name of names) {
    const read = await readJson(`${directory}/${name}`, directory)
    if (read === undefined) continue
    return 'issue' in read ? { issue: `${name}: ${read.issue}` } : { name, value: read.value }
  }
  return undefined
}
