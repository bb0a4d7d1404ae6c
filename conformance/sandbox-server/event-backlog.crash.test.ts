import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import {
  createConversation,
  importLog,
  waitForEqualLogs,
  writeMessagesDuring,
} from '../support/sandbox-server/event-logs.ts'
import { findProcesses } from '../support/sandbox-server/process-resources.ts'
import { type SandboxInfo, SandboxServer } from '../support/sandbox-server/server.ts'

const limitMs = 600_000
const mebibyte = 1024 * 1024

/** Memory of the agent server of a sandbox in bytes: now, and its peak. */
async function agentServerMemory(
  server: SandboxServer,
  sandbox: SandboxInfo,
): Promise<{ now: number; most: number }> {
  const processes = await findProcesses(join(server.data, 'sandboxes', sandbox.id))
  const agent = processes.find(({ command }) => command.startsWith(process.execPath))
  const status = await readFile(`/proc/${agent?.pid}/status`, 'utf8')
  const kibibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1])
  return { now: kibibytes('VmRSS') * 1024, most: kibibytes('VmHWM') * 1024 }
}

test(
  'a long backlog without a receiver does not fill the memory of the agent server',
  async () => {
    await using server = await SandboxServer.open()
    const box = await server.direct(await server.startRunningSandbox())
    // Logs like the following ones, so that their own cost is not counted.
    const begun: string[] = []
    for (let count = 0; count < 2; count++) begun.push(await importLog(box, 4_000, 4_000))
    await waitForEqualLogs(server, box, begun)
    const before = await agentServerMemory(server, box)
    await server.stop('SIGKILL')
    const runs = [await createConversation(box), await createConversation(box)]
    const logs: string[] = []
    await writeMessagesDuring(box, runs, async () => {
      for (let round = 0; round < 12; round++) logs.push(await importLog(box, 4_000, 4_000))
      await sleep(5_000)
    })
    await server.start()
    await waitForEqualLogs(server, box, [...runs, ...logs])
    const after = await agentServerMemory(server, box)
    // The backlog is more than 190 MiB; caches and garbage may grow.
    expect(after.most - before.most).toBeLessThan(160 * mebibyte)
  },
  limitMs,
)
