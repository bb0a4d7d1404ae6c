import { sanitizeLine, truncate } from '../output/sanitize.ts'
import { printNote, printResult } from '../output/terminal.ts'
import { listPrivateRuns, stopPrivateServer } from './start-private-server.ts'

/** Stops the private server; the runs that this pauses are named, with how they continue. */
export async function stopCommand(
  env: Readonly<Record<string, string | undefined>>,
  isJson: boolean,
): Promise<void> {
  // A server that does not answer can still be stopped.
  const runs = await listPrivateRuns(env).catch(() => [])
  const isStopped = await stopPrivateServer(env)
  const paused = isStopped ? runs.map(({ id }) => id) : []
  await printResult(
    isJson,
    { stopped: isStopped, paused },
    isStopped ? 'stopped' : 'The private server does not run: it stops on its own after the last session.',
  )
  if (isJson || paused.length === 0) return
  printNote('These runs were in progress and are paused:')
  for (const { id, title } of runs)
    printNote(`  ${id.slice(0, 8)}  ${truncate(sanitizeLine(title ?? ''), 100)}`.trimEnd())
  printNote('A message lets one continue: slipway send ID "Continue"')
}
