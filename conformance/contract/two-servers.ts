import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { startAgentServer } from '../support/agent-server.ts'
import type { Guarantee } from './guarantee.ts'
import { MessageLedger } from './message-ledger.ts'

/** Several starts on the directory of a running server. */
export const twoServers: Guarantee = {
  promise: 'One directory is written by one server: every other one is refused and told why.',
  round: 'starts three servers at once on the directory of a running one, by its path and by a symbolic link',
  share: 0.05,
  partRounds: 25,
  async run(rounds) {
    await using server = await OwnAgentServer.open()
    const ledger = await MessageLedger.open(server.api)
    const link = join(server.directory, 'link')
    await symlink(server.data, link)
    const over = new AbortController()
    const load = ledger.write(server.api, { label: 'first server', signal: over.signal, writers: 2 })
    for (let round = 0; round < rounds; round++) {
      const starts = await Promise.allSettled(
        [server.data, link, server.data].map((data) => startAgentServer(data)),
      )
      for (const start of starts) {
        if (start.status === 'fulfilled') await start.value.stop('SIGKILL')
        expect(String(start.status === 'rejected' ? start.reason : 'started')).toMatch(/in use by/)
      }
    }
    over.abort()
    await load
    await ledger.verify(server.api)
    return { 'servers refused': rounds * 3, acknowledged: ledger.acknowledged, lost: 0 }
  },
}
