import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Cipher, type Ledger, openLedger } from '@slipway/storage'

/** A directory for one test. */
export function temporary(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'slipway-control-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** A ledger of its own with its cipher, for one test. */
export async function openTrialLedger(
  now?: () => number,
): Promise<AsyncDisposable & { readonly ledger: Ledger; readonly cipher: Cipher; readonly path: string }> {
  const directory = temporary()
  const ledger = await openLedger({ directory: directory.path, ...(now === undefined ? {} : { now }) })
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  return {
    ledger,
    cipher,
    path: directory.path,
    async [Symbol.asyncDispose]() {
      await ledger[Symbol.asyncDispose]()
      directory[Symbol.dispose]()
    },
  }
}
