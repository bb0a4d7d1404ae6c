import { CallError, type Client, readPendingActions } from '@slipway/client'
import { noAnswerHeader } from '@slipway/protocol/client'
import { visibleText } from '@slipway/protocol/visible-text'
import { actionText, asObject, asString, type JsonObject, riskMark } from '../output/action-text.ts'
import { questionLines } from '../output/question.ts'
import { sanitizeLine } from '../output/sanitize.ts'

/** An action that waits for confirmation, safe to print. */
export interface PendingAction {
  /** Of its ActionEvent. */
  readonly id: string
  readonly tool: string
  /** What it does: all of it in one line. */
  readonly text: string
  readonly risk: string
  /** What a question shows of it, in rows of that many columns; without them the terminal wraps. */
  lines(columns?: number): readonly string[]
}

/** What waits for one answer. */
interface PendingQuestion {
  /** The oldest first. */
  readonly actions: readonly PendingAction[]
  /** An answer that carries it is for exactly these actions. */
  readonly digest: string
}

/** The actions of a conversation that have no result yet. */
export async function readPendingQuestion(
  client: Client,
  id: string,
  signal: AbortSignal,
): Promise<PendingQuestion> {
  const { events, digest } = await readPendingActions(client, id, signal)
  return { actions: events.map((event) => toPendingAction(asObject(event))), digest }
}

function toPendingAction(event: JsonObject): PendingAction {
  return {
    id: asString(event.id),
    tool: sanitizeLine(asString(event.tool_name)),
    text: visibleText(actionText(event.action)).trim(),
    risk: sanitizeLine(asString(event.security_risk)),
    lines: (columns) => questionLines(event, columns),
  }
}

/** One line: tool, risk, command. */
export function formatPendingAction({ tool, text, risk }: PendingAction): string {
  return `${tool}${riskMark(risk)}: ${text}`
}

/** What actions do, whole and line by line, for a question. */
export function questionText(actions: readonly PendingAction[], columns?: number): string {
  const width = columns === undefined ? undefined : columns - 2
  return actions.flatMap(({ lines }) => lines(width).map((line) => `  ${line}`)).join('\n')
}

/** What is said when actions were answered before this answer came. */
export const answeredElsewhere = 'Already answered elsewhere: this answer has changed nothing.'

/**
 * Answers exactly these actions; false when they wait no more, or others do: then nothing is
 * answered. A rejection without a reason stops the run; after one with a reason it continues with
 * `isContinued`.
 */
export async function answerActions(
  client: Client,
  id: string,
  answer: {
    readonly accept: boolean
    readonly reason?: string | undefined
    /** Ids of the actions as they were shown. */
    readonly actionIds: readonly string[]
    /** Of the actions as they were shown. */
    readonly digest: string
    readonly isContinued: boolean
  },
  signal: AbortSignal,
): Promise<boolean> {
  const params = { conversation_id: id }
  const { accept, reason, actionIds, digest, isContinued } = answer
  const body = { accept, reason, action_ids: [...actionIds], actions_digest: digest }
  try {
    await client.call('respondToConfirmation', { params, body, signal })
  } catch (error) {
    if (error instanceof CallError && error.status === 409) return false
    throw error
  }
  if (!accept && isContinued) await continueRun(client, id, signal)
  return true
}

/** Unless another question waits by now, which the run would approve: that one is asked. */
async function continueRun(client: Client, conversation_id: string, signal: AbortSignal): Promise<void> {
  const headers = { [noAnswerHeader]: '1' }
  try {
    await client.call('runConversation', { params: { conversation_id }, headers, signal })
  } catch (error) {
    if (!(error instanceof CallError && error.status === 403)) throw error
  }
}

/** Runs this command from now on without a question. */
export async function allowCommand(
  client: Client,
  id: string,
  pattern: string,
  signal: AbortSignal,
): Promise<void> {
  const params = { conversation_id: id }
  const { command_rules = [] } = await client.call('getConversation', { params, signal })
  const rule = { pattern, decision: 'allow' as const }
  await client.call('patchConversation', {
    params,
    body: { command_rules: [...command_rules, rule] },
    signal,
  })
}
