import { spawnSync } from 'node:child_process'
import { expect, onTestFinished, test } from 'vitest'
import { runInSandbox } from '../support/sandbox-server/crash-rounds.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import { createUser } from '../support/sandbox-server/user.ts'

/** One tenant fills the disk, in a sandbox whose spec has no limit. */

const isRoot = process.getuid?.() === 0
const canRun = process.platform === 'linux' && spawnSync('bwrap', ['--version']).status === 0

test.skipIf(!canRun).each(isRoot ? ['root', 'an ordinary user'] : ['an ordinary user'])(
  'a sandbox of a server of %s that keeps more on disk than it may is paused, and the others are not',
  { timeout: 600_000 },
  async (user) => {
    const server = await SandboxServer.prepare({
      env: { SLIPWAY_SANDBOX_MAX_DISK_MB: '40' },
      ...(isRoot && user !== 'root' ? { uid: 65_534 } : {}),
    })
    onTestFinished(() => server[Symbol.asyncDispose](), 200_000)
    await server.start()
    const [ann, bea] = [await createUser(server), await createUser(server)]
    const [attacker, victim] = [await ann.startRunningSandbox(), await bea.startRunningSandbox()]
    // Ends on its own when no one stops it.
    const fill = 'for i in $(seq 200); do head -c 2097152 /dev/zero >> filling || exit; sleep 0.1; done'
    await runInSandbox(attacker, `cd ${attacker.working_dir} && (setsid sh -c '${fill}' > /dev/null 2>&1 &)`)
    // What others free meanwhile may hide what it writes: it is measured each minute in any case.
    const status = async () => (await ann.getSandbox(attacker.id))?.status
    await expect.poll(status, { timeout: 200_000, interval: 200 }).toBe('PAUSED')
    expect(server.output()).toContain('it keeps more on disk than its limit')
    expect(await bea.getSandbox(victim.id)).toMatchObject({ status: 'RUNNING' })
    expect(await runInSandbox(victim, 'echo works')).toBe('works\n')
  },
)
