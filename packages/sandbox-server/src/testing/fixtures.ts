import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Cipher } from '@slipway/storage'
import { type ControlPlaneStore, openControlPlaneStore } from '@slipway/storage/control-plane'

/** A directory for one test. */
export function temporaryDirectory(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'slipway-control-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** A control-plane store with its cipher, for one test. */
export async function openTestControlPlane(now?: () => number): Promise<
  AsyncDisposable & {
    readonly controlPlane: ControlPlaneStore
    readonly cipher: Cipher
    readonly path: string
  }
> {
  const directory = temporaryDirectory()
  const controlPlane = await openControlPlaneStore({
    directory: directory.path,
    ...(now === undefined ? {} : { now }),
  })
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  return {
    controlPlane,
    cipher,
    path: directory.path,
    async [Symbol.asyncDispose]() {
      await controlPlane[Symbol.asyncDispose]()
      directory[Symbol.dispose]()
    },
  }
}
