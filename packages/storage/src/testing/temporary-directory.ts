import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A directory for one test. */
export function temporaryDirectory(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'slipway-storage-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) }
}
