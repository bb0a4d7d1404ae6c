import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { note } from '../../output/terminal.ts'
import { eventually, type SandboxStage } from './context.ts'
import { processesIn } from './find-processes.ts'

/** What is there of sandboxes: their processes (undefined: nobody knows here) and their directories. */
export interface Traces {
  readonly processes: number | undefined
  readonly directories: number
}

export async function tracesOf({ root, data }: Pick<SandboxStage, 'root' | 'data'>): Promise<Traces> {
  const directories = await readdir(join(data, 'sandboxes')).catch(() => [])
  return { processes: (await processesIn(root))?.length, directories: directories.length }
}

/**
 * Ends all sandboxes and waits until nothing of them is left; also a start that is under way when it is called. It never
 * rejects: what cannot be removed is told.
 */
export async function removeAll(stage: Pick<SandboxStage, 'client' | 'root' | 'data'>): Promise<void> {
  const signal = new AbortController().signal
  try {
    await eventually('the sandboxes go', signal, async () => {
      const isEmpty = await removeOnce(stage, signal).catch(() => false)
      const { processes = 0, directories } = await tracesOf(stage)
      return isEmpty && processes === 0 && directories === 0 ? true : undefined
    })
  } catch {
    const left = await processesIn(stage.root)
    note(`These processes of the demo could not be ended: ${left?.join(', ') ?? 'nobody knows which'}.`)
  }
}

/** Whether there was nothing to remove. */
async function removeOnce({ client }: Pick<SandboxStage, 'client'>, signal: AbortSignal): Promise<boolean> {
  const { items: tasks } = await client.call('searchStartTasks', { query: {}, signal })
  // One that is not in a sandbox yet would make one later.
  const isStarting = tasks.some(({ status }) => status !== 'READY' && status !== 'ERROR')
  const { items } = await client.call('searchSandboxes', { query: {}, signal })
  for (const { id } of items)
    await client.call('deleteSandbox', { params: { sandbox_id: id }, query: {}, signal })
  return items.length === 0 && !isStarting
}
