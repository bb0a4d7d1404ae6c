import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Cipher, type Storage } from '@slipway/storage'
import { Agents } from './agents.ts'
import { Profiles } from './profiles.ts'

/** A directory for one test. */
export function temporary(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'slipway-server-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) }
}

/** The conversations of a server whose data is in a directory, without the server. */
export async function openAgents(storage: Storage, directory: string, idleMs = 60_000): Promise<Agents> {
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  return new Agents({
    storage,
    cipher,
    profiles: new Profiles({ directory: join(directory, 'profiles'), cipher }),
    log: () => undefined,
    now: () => Date.now() * 1000,
    directory: join(directory, 'conversations'),
    environment: { PATH: '/usr/bin:/bin' },
    home: undefined,
    isConfined: true,
    hidden: [],
    confirmationDeadlineMs: undefined,
    maxRuns: 10,
    idleMs,
  })
}
