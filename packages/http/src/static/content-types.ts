import { ownMember } from '@slipway/shared/json'
import types from './content-types.json' with { type: 'json' }

/** The content type of a file by its extension; undefined when that is unknown. Texts are UTF-8. */
export function contentTypeForPath(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const at = name.lastIndexOf('.')
  return at < 0 ? undefined : ownMember<string>(types, name.slice(at + 1).toLowerCase())
}

/** Whether bytes from the start of a file look like text, as git decides it: text has no NUL. */
export function contentTypeForSample(sample: Buffer): string {
  return sample.includes(0) ? 'application/octet-stream' : types.txt
}
