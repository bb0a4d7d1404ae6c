import { spawnSync } from 'node:child_process'
import { rm, statfs } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { runInSandbox } from '../support/sandbox-server/crash-rounds.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import { createUser } from '../support/sandbox-server/user.ts'

/** One tenant fills the disk of the machine, without a limit for each sandbox. */

const mebibyte = 2 ** 20
const canMount =
  process.getuid?.() === 0 &&
  spawnSync('unshare', ['-m', 'sh', '-c', 'mount -t tmpfs none /mnt']).status === 0

test.skipIf(!canMount)(
  'a sandbox that fills the disk is paused before the server and the others have no space',
  { timeout: 300_000 },
  async () => {
    const server = await SandboxServer.prepare()
    expect(spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=600m,mode=700', 'none', server.data]).status).toBe(
      0,
    )
    onTestFinished(async () => {
      // The directory itself is busy: it is a mount.
      await server[Symbol.asyncDispose]().catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EBUSY') throw error
      })
      spawnSync('umount', ['--lazy', server.data])
      await rm(server.data, { recursive: true, force: true })
    }, 200_000)
    await server.start()
    const [ann, bea] = [await createUser(server), await createUser(server)]
    const [attacker, victim] = [await ann.startRunningSandbox(), await bea.startRunningSandbox()]
    await runInSandbox(victim, `head -c 60000000 /dev/zero > ${victim.working_dir}/kept`)
    const fill = 'while head -c 4194304 /dev/zero >> filling; do sleep 0.1; done'
    await runInSandbox(attacker, `cd ${attacker.working_dir} && (setsid sh -c '${fill}' > /dev/null 2>&1 &)`)
    await ann.waitForSandbox(attacker.id, 'PAUSED')
    const { bsize, bavail } = await statfs(server.data)
    expect(bsize * bavail).toBeGreaterThan(8 * mebibyte)
    expect(server.output()).toContain('the disk is nearly full')
    // The other one is not paused, although the space is still used, and writes.
    await sleep(1_000)
    expect(await bea.getSandbox(victim.id)).toMatchObject({ status: 'RUNNING' })
    expect(await runInSandbox(victim, `cd ${victim.working_dir} && echo kept > file && cat file`)).toBe(
      'kept\n',
    )
    await ann.requestOrThrow('DELETE', `/api/v1/sandboxes/${attacker.id}`)
    await expect
      .poll(async () => (await statfs(server.data)).bavail * bsize, { timeout: 120_000 })
      .toBeGreaterThan(200 * mebibyte)
  },
)
