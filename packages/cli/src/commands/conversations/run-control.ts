import type { CommandContext } from '../../context/command-context.ts'
import {
  answerActions,
  answeredElsewhere,
  formatPendingAction,
  readPendingQuestion,
} from '../../conversation/pending-actions.ts'
import { sanitizeLine, sanitizeLines } from '../../output/sanitize.ts'
import { printNote, printResult } from '../../output/terminal.ts'
import { exitCodes, followRun } from './follow-run.ts'

/** Pauses or interrupts a run. */
export async function stopCommand(
  context: CommandContext,
  id: string,
  how: 'pauseConversation' | 'interruptConversation',
): Promise<void> {
  const { client, isJson, signal } = context
  const params = { conversation_id: id }
  await client.call(how, { params, signal })
  const info = await client.call('getConversation', { params, signal })
  const { execution_status } = info
  await printResult(isJson, { conversation_id: info.id, execution_status }, execution_status)
  if (execution_status === 'paused') printNote(`Continue with: slipway run --conversation ${info.id}`)
}

/**
 * Accepts or rejects pending actions; optionally follows the run. After a rejection with a reason
 * the agent continues, unless `isStopped`. Returns the exit code.
 */
export async function confirmCommand(
  context: CommandContext,
  id: string,
  options: {
    readonly isReject: boolean
    readonly reason?: string | undefined
    readonly isFollowing: boolean
    readonly isStopped: boolean
    /** Answer only when exactly these wait; none: what waits when the command begins. */
    readonly actionIds: readonly string[]
  },
): Promise<number> {
  const { client, signal } = context
  const { isReject, reason, isFollowing, isStopped } = options
  const params = { conversation_id: id }
  const info = await client.call('getConversation', { params, signal })
  if (info.execution_status !== 'waiting_for_confirmation') {
    printNote(`No action is pending: the conversation is ${info.execution_status.replaceAll('_', ' ')}.`)
    return exitCodes.failed
  }
  const after = await client.call('countEvents', { params, signal })
  const { actions, digest } = await readPendingQuestion(client, id, signal)
  if (actions.length === 0) {
    printNote(
      `No action is pending. The repository brings hooks or agents: slipway trust ${sanitizeLine(info.workspace.working_dir)}`,
    )
    return exitCodes.failed
  }
  const actionIds = options.actionIds.length > 0 ? options.actionIds : actions.map((action) => action.id)
  const isContinued = isReject && reason !== undefined && !isStopped
  const answer = { accept: !isReject, reason, actionIds, digest, isContinued }
  if (!(await answerActions(client, id, answer, signal))) {
    printNote(answeredElsewhere)
    return exitCodes.failed
  }
  for (const action of actions)
    printNote(`${isReject ? 'Rejected' : 'Accepted'}: ${formatPendingAction(action)}`)
  const isEnded = isReject && !isContinued
  if (isFollowing && !isEnded) return await followRun(context, id, { after, isYes: false })
  printNote(
    isEnded
      ? `Continue with: slipway run --conversation ${info.id}`
      : `Follow it with: slipway logs -f ${info.id.slice(0, 8)}`,
  )
  return exitCodes.finished
}

/** Asks the model about a conversation without changing its log. */
export async function askCommand(
  { client, isJson, signal }: CommandContext,
  id: string,
  question: string,
): Promise<void> {
  const params = { conversation_id: id }
  const answer = await client.call('askAgent', { params, body: { question }, signal })
  await printResult(isJson, answer, sanitizeLines(answer.response).join('\n'))
}

/** Copies a conversation, all of it or up to an event. */
export async function forkCommand(
  { client, isJson, signal }: CommandContext,
  id: string,
  options: { readonly title?: string | undefined; readonly fromEvent?: string | undefined },
): Promise<void> {
  const body = { title: options.title, from_event_id: options.fromEvent }
  const fork = await client.call('forkConversation', { params: { conversation_id: id }, body, signal })
  const count = await client.call('countEvents', { params: { conversation_id: fork.id }, signal })
  const done = { conversation_id: fork.id, events: count }
  await printResult(isJson, done, `${sanitizeLine(fork.id)} with ${count} events`)
}
