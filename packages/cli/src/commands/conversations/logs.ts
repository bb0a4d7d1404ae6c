import type { TransientUpdate } from '@slipway/client'
import type { ConversationSource } from '../../conversation/source/source.ts'
import { print, printNote, printResult } from '../../output/terminal.ts'
import { TranscriptRenderer } from '../../output/transcript.ts'
import { connectionNotes, noteResync, positionedLine } from './tail.ts'

interface LogsContext {
  readonly source: ConversationSource
  readonly isJson: boolean
  readonly signal: AbortSignal
}

/** Prints the steps of a conversation as text, and with `isFollowing` those that come, until Ctrl-C. */
export async function logsCommand(
  { source, isJson }: LogsContext,
  id: string,
  options: { readonly isFollowing: boolean; readonly after: string },
): Promise<void> {
  const { isFollowing, after } = options
  await source.get(id)
  const total = await source.countEvents(id, {})
  const steps = new TranscriptRenderer({ columns: process.stdout.columns || 100 })
  if (!isFollowing && total <= Number.parseInt(after, 10)) return
  const onTransientUpdate = (update: TransientUpdate) => {
    // Streamed text comes with its event.
    if (update.kind === 'ConversationStateUpdateEvent') process.stdout.write(steps.renderUpdate(update))
  }
  const listener = isFollowing && !isJson ? { onTransientUpdate } : {}
  const handlers = { onResync: noteResync, ...connectionNotes(), ...listener }
  for await (const item of source.follow(id, { after, ...handlers })) {
    await print(isJson ? positionedLine(item) : steps.renderEvent(item.event))
    if (!isFollowing && item.position >= total) return
  }
}

/** Sends a message, which starts a run. */
export async function sendCommand({ source, isJson }: LogsContext, id: string, text: string): Promise<void> {
  await source.send(id, text)
  await printResult(isJson, { conversation_id: id }, 'sent')
  printNote(`Follow it with: slipway logs -f ${id.slice(0, 8)}`)
}
