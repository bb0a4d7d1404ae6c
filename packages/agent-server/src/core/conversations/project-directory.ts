import { resolve } from 'node:path'
import { invalidInput } from '@slipway/protocol'

/** The directory of a project as a request names it; relative ones start where the server runs. */
export function resolveProjectDirectory(path: string | undefined): string | undefined {
  if (path === undefined || path === '') return undefined
  if (path.includes('\0')) throw invalidInput(['body', 'project_dir'], 'The path contains a NUL byte')
  return resolve(path)
}
