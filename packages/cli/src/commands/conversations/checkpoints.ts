import type { CommandContext } from '../../context/command-context.ts'
import { sanitizeLine, sanitizeLines } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

/** Lists the checkpoints of a conversation's workspace, or shows what changed after one of them. */
export async function checkpointsCommand(
  { client, isJson, signal }: CommandContext,
  id: string,
  checkpoint_id: string | undefined,
): Promise<void> {
  const params = { conversation_id: id }
  if (checkpoint_id !== undefined) {
    const diff = await client.call('getCheckpointDiff', { params: { ...params, checkpoint_id }, signal })
    await printResult(isJson, diff, sanitizeLines(diff.patch.trimEnd()).join('\n'))
    if (diff.is_truncated) printNote(`The changes of ${diff.total} files are too long to show all of them.`)
    return
  }
  const list = await client.call('listCheckpoints', { params, signal })
  if (list.off_reason !== null) printNote(`No more are made: ${sanitizeLine(list.off_reason)}`)
  if (isJson) return await print(`${JSON.stringify(list)}\n`)
  if (list.items.length === 0) return printNote('There is no checkpoint yet.')
  const rows = list.items.map(({ id, kind, event_id, timestamp }) => {
    const time = sanitizeLine(timestamp).slice(0, 19).replace('T', ' ')
    return [id, time, kind === 'step' ? 'before a step' : 'before a restore', event_id ?? '']
  })
  await print(table(rows, [41, 20, 17], ['ID', 'TIME', 'KIND', 'EVENT']))
}

/** Restores the workspace of a conversation to a checkpoint. */
export async function restoreCommand(
  { client, isJson, signal }: CommandContext,
  id: string,
  checkpoint_id: string,
): Promise<void> {
  const params = { conversation_id: id, checkpoint_id }
  const done = await client.call('restoreCheckpoint', { params, signal })
  await printResult(isJson, done, `${done.total} files changed`)
  if (done.kept.length > 0) printNote(`Your own changes stay: ${nameFiles(done.kept)}`)
  if (done.clashes.length > 0)
    printNote(`You had changed these too; your version is in ${done.saved.id}: ${nameFiles(done.clashes)}`)
  printNote(`Undo with: slipway rollback ${id} ${done.saved.id}`)
}

const maxShown = 10

function nameFiles(paths: readonly string[]): string {
  const more = paths.length > maxShown ? ` and ${paths.length - maxShown} more` : ''
  return paths.slice(0, maxShown).map(sanitizeLine).join(', ') + more
}
