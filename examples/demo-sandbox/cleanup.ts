import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { printNote } from '@slipway/cli/toolkit'
import { pollUntil, type SandboxDemoContext } from './context.ts'
import { findProcesses } from './find-processes.ts'

/**
 * What is left of sandboxes: the number of their processes (undefined: unknown on this system) and of their
 * directories.
 */
export interface Leftovers {
  readonly processes: number | undefined
  readonly directories: number
}

export async function findLeftovers({
  root,
  data,
}: Pick<SandboxDemoContext, 'root' | 'data'>): Promise<Leftovers> {
  // Those of sandboxes: `.s` has short paths of sockets and stays.
  const names = await readdir(join(data, 'sandboxes')).catch(() => [])
  const directories = names.filter((name) => name !== '.s')
  return { processes: (await findProcesses(root))?.length, directories: directories.length }
}

/**
 * Deletes all sandboxes and waits until nothing of them is left, starts that are under way included. Never
 * rejects: it reports what it cannot remove.
 */
export async function removeSandboxes(
  stage: Pick<SandboxDemoContext, 'client' | 'root' | 'data'>,
): Promise<void> {
  const signal = new AbortController().signal
  try {
    await pollUntil('the sandboxes go', signal, async () => {
      const isEmpty = await removeOnce(stage, signal).catch(() => false)
      const { processes = 0, directories } = await findLeftovers(stage)
      return isEmpty && processes === 0 && directories === 0 ? true : undefined
    })
  } catch {
    const left = await findProcesses(stage.root)
    printNote(`These processes of the demo could not be stopped: ${left?.join(', ') ?? 'unknown'}.`)
  }
}

/** Whether there was nothing to remove. */
async function removeOnce(
  { client }: Pick<SandboxDemoContext, 'client'>,
  signal: AbortSignal,
): Promise<boolean> {
  const { items: tasks } = await client.call('searchStartTasks', { query: {}, signal })
  // A start without a sandbox yet would create one later.
  const isStarting = tasks.some(({ status }) => status !== 'READY' && status !== 'ERROR')
  const { items } = await client.call('searchSandboxes', { query: {}, signal })
  for (const { id } of items)
    await client.call('deleteSandbox', { params: { sandbox_id: id }, query: {}, signal })
  return items.length === 0 && !isStarting
}
