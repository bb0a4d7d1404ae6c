import { execFileSync } from 'node:child_process'
import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'
import type { Guarantee } from './guarantee.ts'
import { MessageLedger } from './message-ledger.ts'

/** The file system of a data directory fills and gets space again, under load, without a restart. */
export const fullDisk: Guarantee = {
  promise:
    'A full disk refuses writes and loses nothing; when there is space again the same server writes again.',
  round: 'fills a file system of 24 MB under load until writes are refused, then frees it',
  share: 0.09,
  partRounds: 10,
  whyUnavailable,
  async run(rounds) {
    const directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-full-')))
    let refused = 0
    let acknowledged = 0
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', directory])
    try {
      for (let round = 0; round < rounds; round++) {
        const data = join(directory, `data-${round}`)
        const server = await startAgentServer(data)
        try {
          const api = new AgentServerApi({ url: server.url, headers: {} })
          const ledger = await MessageLedger.open(api)
          const filler = join(directory, 'filler')
          const over = new AbortController()
          const load = ledger.write(api, { label: `round ${round}`, signal: over.signal, bytes: 2_000 })
          await sleep(200)
          await writeFile(filler, Buffer.alloc(24 * 1024 * 1024)).catch(() => {})
          await waitFor(() => ledger.refused > 0)
          await ledger.verify(api)
          await rm(filler)
          const before = ledger.acknowledged
          await waitFor(() => ledger.acknowledged > before + 10)
          over.abort()
          await load
          await ledger.verify(api)
          refused += ledger.refused
          acknowledged += ledger.acknowledged
        } finally {
          await server.stop('SIGKILL')
          await rm(data, { recursive: true, force: true })
        }
      }
    } finally {
      execFileSync('umount', ['--lazy', directory])
      await rm(directory, { recursive: true })
    }
    expect(refused).toBeGreaterThan(0)
    return { 'full disks': rounds, acknowledged, 'writes refused': refused, lost: 0 }
  },
}

/** Mounts need root and a kernel that allows them. */
function whyUnavailable(): string | undefined {
  try {
    execFileSync('unshare', ['--mount', 'true'], { stdio: 'ignore' })
    return process.getuid?.() === 0 ? undefined : 'it mounts a small file system, which needs root'
  } catch {
    return 'mounts are not allowed here'
  }
}

async function waitFor(check: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 60_000; !check(); await sleep(20))
    if (Date.now() > deadline) throw new Error('the server did not continue within 60 s')
}
