import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/**
 * Where programs of a kind that tests need are kept, `$SLIPWAY_CI_CACHE/<kind>/<version>`: the version is the
 * checksum of the file that lists them. It need not exist.
 */
export function builtFolder(kind: string, listPath: string): string {
  const { SLIPWAY_CI_CACHE, XDG_CACHE_HOME } = process.env
  const cache = SLIPWAY_CI_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'slipway-ci')
  return join(cache, kind, hash('sha256', readFileSync(listPath)).slice(0, 16))
}
