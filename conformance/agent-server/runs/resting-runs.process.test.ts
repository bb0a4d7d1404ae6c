import { mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { AgentDriver, bashStep, finishStep } from '../../support/agent-driver.ts'
import { startAgentServer } from '../../support/agent-server.ts'
import { AgentServerApi } from '../../support/agent-server-api.ts'

vi.setConfig({ testTimeout: 300_000 })
const resting = 32

test('threads and descriptors of finished runs are bounded, and a program in the background stays', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'rest-'))
  const server = await startAgentServer(join(directory, 'data'), {})
  const count = async (of: 'task' | 'fd') => (await readdir(`/proc/${server.pid}/${of}`)).length
  try {
    const api = new AgentServerApi({ url: server.url, headers: {} })
    const driver = new AgentDriver({ api, directory })
    const run = async (command: string) => {
      const { id } = await driver.createScripted([bashStep(command), finishStep()])
      await driver.waitUntilIdle(id)
      return id
    }
    const program = join(directory, 'program')
    await symlink('/bin/sleep', program)
    await run(`${program} 600 &`)
    await run('echo x')
    const [tasks, descriptors] = [await count('task'), await count('fd')]
    for (let runs = 0; runs < resting * 2; runs++) await run('echo x')
    // A conversation rests some seconds before it counts; each further one makes room, and needs some itself.
    await expect
      .poll(
        async () => {
          await run('echo x')
          return (await count('task')) - tasks
        },
        { timeout: 120_000, interval: 4_000 },
      )
      // Threads of the process itself begin when there is work for them.
      .toBeLessThan(resting + 14)
    expect((await count('fd')) - descriptors).toBeLessThan(2 * resting)
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
    const lines = await Promise.all(
      pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')),
    )
    expect(lines).toContain([program, '600', ''].join('\0'))
  } finally {
    await server.stop()
    await rm(directory, { recursive: true, force: true })
  }
})
