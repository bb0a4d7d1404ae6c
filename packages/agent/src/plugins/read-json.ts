import { realpath } from 'node:fs/promises'
import { exceedsMaxDepth, validationIssues } from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'
import { ellipsize } from '../skills/skill.ts'
import { readSmallFile } from '../skills/small-file.ts'

const maxBytes = 1024 * 1024

/**
 * Reads a small untrusted JSON file; undefined when it does not exist. Never throws; an issue is a sentence
 * that begins with a verb. `within`: a real directory that must contain the file.
 */
export async function readJson(
  path: string,
  within: string,
): Promise<{ readonly value: unknown } | { readonly issue: string } | undefined> {
  const file = await readSmallFile(path, { maxBytes, within })
  if (file === undefined || 'issue' in file) return file
  if (file.isTruncated) return { issue: 'is larger than 1 MiB' }
  if (exceedsMaxDepth(Buffer.from(file.text))) return { issue: 'nests too deep' }
  const value = parseJson(file.text)
  return value === undefined ? { issue: 'is not JSON' } : { value }
}

/** The first file that exists. */
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

type ParseResult<T> =
  | { readonly success: true; readonly data: T }
  | { readonly success: false; readonly error: Parameters<typeof validationIssues>[0] }

/**
 * Reads and validates the manifest of a folder, the first of `names` that exists (`file`). `root`: the
 * folder's real path.
 */
export async function readManifest<T>(
  directory: string,
  names: readonly string[],
  schema: { safeParse(value: unknown): ParseResult<T> },
): Promise<
  { readonly root: string; readonly manifest: T; readonly file: string } | { readonly issue: string }
> {
  const root = await realpath(directory).catch(() => undefined)
  if (root === undefined) return { issue: 'is missing' }
  const file = await readFirstJson(root, names)
  if (file === undefined) return { issue: `has no ${ellipsize(names.at(-1) ?? '', 200)}` }
  if ('issue' in file) return file
  const result = schema.safeParse(file.value)
  if (result.success) return { root, manifest: result.data, file: file.name }
  const [issue] = validationIssues(result.error, [], file.value)
  return { issue: `${file.name}: ${issue?.loc.join('.') || 'manifest'}: ${issue?.msg ?? 'is invalid'}` }
}
