import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import {
  beforeAndAfter,
  ClientState,
  crashAtEveryStep,
  expectConsistent,
  runInSandbox,
  writeMarkerFile,
} from '../support/sandbox-server/crash-rounds.ts'
import {
  conversationScenario,
  lifecycleScenario,
  warmPoolScenario,
} from '../support/sandbox-server/crash-scenarios.ts'
import { findProcesses } from '../support/sandbox-server/process-resources.ts'
import { type SandboxInfo, SandboxServer } from '../support/sandbox-server/server.ts'

/**
 * The server is killed after the first step of each name: after each change of a sandbox and, of the writes
 * of its row, one of a wish and one of a state. What is after a step is before the next one. At night every
 * step of a sandbox's life is one, before and after it, each process of a sandbox is killed while the server
 * runs and while it is down, and with many rounds of the contract every step of the warm pool and every
 * commit of a start.
 */
const contractRounds = Number(process.env.SLIPWAY_CONTRACT_ROUNDS ?? 0)
const isNightly = contractRounds >= 60
const isThorough = contractRounds >= 1_000
/** Of the steps with these names. */
const kills = (...names: readonly string[]) =>
  beforeAndAfter(...names).filter((step) => isNightly || step.startsWith('after '))
const limitMs = 900_000

test(
  'a kill at any step of start, pause, resume and delete loses nothing and leaves nothing behind',
  async () => {
    await using first = await SandboxServer.prepare()
    await using second = await SandboxServer.prepare()
    const calls = ['add', 'start', 'pause', 'resume', 'remove', 'forget']
    const writes = ['write wanted running', 'write PAUSED']
    const otherWrites = ['write wanted paused', 'write wanted gone', 'write RUNNING']
    const wanted = kills(...calls, ...writes, ...(isNightly ? otherWrites : []))
    await crashAtEveryStep(
      [first, second],
      lifecycleScenario,
      (steps) => (isNightly ? steps : steps.filter((step) => wanted.some((name) => step === `1 ${name}`))),
      wanted,
    )
  },
  limitMs,
)

test(
  'a kill at any step of a start from the warm pool loses nothing and leaves nothing behind',
  async () => {
    await using first = await SandboxServer.prepare()
    await using second = await SandboxServer.prepare()
    // By day those of a start without a pool are left to the scenario above.
    const wanted = kills(...(isNightly ? ['add', 'start'] : []), 'claim')
    await crashAtEveryStep(
      [first, second],
      warmPoolScenario,
      (steps) => (isThorough ? steps : steps.filter((step) => wanted.some((name) => step === `1 ${name}`))),
      wanted,
    )
  },
  limitMs,
)

test(
  'after a kill at any step of a start the conversation can be started again and deleted, and nothing is duplicated',
  async () => {
    await using first = await SandboxServer.prepare()
    await using second = await SandboxServer.prepare()
    const select = (steps: readonly string[]) => {
      const commits = steps.filter((step) => step.endsWith(' commit'))
      if (isThorough) return commits
      // An odd distance: half of the kills are before a commit, half after one.
      if (isNightly) return commits.filter((_, at) => at % 7 === 0)
      return commits.filter((step) => step.includes(' after ')).filter((_, at) => at % 25 === 0)
    }
    await crashAtEveryStep([first, second], conversationScenario, select, kills('commit'))
  },
  limitMs,
)

/**
 * Which processes of a sandbox are killed: its agent server, the wrapper around it, the shell beside it, or
 * all at once.
 */
const processMatchers: Readonly<Record<string, (command: string) => boolean>> = {
  'agent server': (command) => command.startsWith(process.execPath),
  wrapper: (command) => command.startsWith('/usr/bin/bwrap') || command.startsWith('bwrap'),
  supervisor: (command) => command.startsWith('/bin/sh'),
  everything: () => true,
}

/** Returns how many there were. */
async function killProcesses(server: SandboxServer, sandbox: SandboxInfo, target: string): Promise<number> {
  const processes = await findProcesses(join(server.data, 'sandboxes', sandbox.id))
  const killed = processes.filter(({ command }) => processMatchers[target]?.(command))
  for (const { pid } of killed) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It ended with another one.
    }
  }
  return killed.length
}

test(
  'a sandbox whose processes are killed is ERROR with a reason and never PAUSED, and a resume starts it with its files',
  async () => {
    await using server = await SandboxServer.open({ env: { SLIPWAY_RECONCILE_SECONDS: '1' } })
    const known = new ClientState('victim')
    known.sandbox = await server.startRunningSandbox()
    await writeMarkerFile(known.sandbox, known)
    const { id } = known.sandbox
    for (const [at, victim] of Object.keys(processMatchers).entries()) {
      for (const isDown of isNightly ? [false, true] : [at % 2 === 1]) {
        if (isDown) await server.stop('SIGKILL')
        // Without isolation there is no wrapper.
        const count = await killProcesses(server, known.sandbox, victim)
        if (isDown) await server.start()
        if (count === 0 && victim === 'wrapper') continue
        expect(count).toBeGreaterThan(0)
        const dead = await server.waitForStatus(id, 'ERROR', ['PAUSED', 'MISSING'])
        expect(String(dead.status_detail).length).toBeGreaterThan(5)
        expect(dead.exposed_urls).toBeNull()
        const again = server.requestJson('POST', `/api/v1/sandboxes/${id}/pause`)
        expect((await again).status).toBe(409)
        expect((await server.requestJson('POST', `/api/v1/sandboxes/${id}/resume`)).status).toBe(200)
        const box = await server.waitForStatus(id, 'RUNNING', ['PAUSED', 'MISSING'])
        expect(box.session_api_key).not.toBe(known.sandbox.session_api_key)
        await expectConsistent(server, box, known)
        known.sandbox = box
      }
    }
  },
  limitMs,
)

test(
  'a paused sandbox whose processes are killed stays PAUSED, and a resume starts it with its files',
  async () => {
    await using server = await SandboxServer.open({ env: { SLIPWAY_RECONCILE_SECONDS: '1' } })
    const known = new ClientState('sleeper')
    known.sandbox = await server.startRunningSandbox()
    await writeMarkerFile(known.sandbox, known)
    const { id } = known.sandbox
    await server.requestJson('POST', `/api/v1/sandboxes/${id}/pause`)
    await server.stop('SIGKILL')
    expect(await killProcesses(server, known.sandbox, 'everything')).toBeGreaterThan(0)
    await server.start()
    await sleep(2_000)
    expect((await server.getSandbox(id))?.status).toBe('PAUSED')
    expect((await server.requestJson('POST', `/api/v1/sandboxes/${id}/resume`)).status).toBe(200)
    const box = await server.waitForStatus(id, 'RUNNING', ['ERROR', 'MISSING'])
    await expectConsistent(server, box, known)
    expect(await runInSandbox(box, 'echo on')).toBe('on\n')
  },
  limitMs,
)
