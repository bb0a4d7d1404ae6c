import { CallError, type Client } from '@slipway/client'
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
  /** What a question shows of it. */
  readonly lines: readonly string[]
}

/** The actions of a conversation that have no result yet, the oldest first. */
export async function listPendingActions(
  client: Client,
  id: string,
  signal: AbortSignal,
): Promise<PendingAction[]> {
  const answeredCalls = new Set<string>()
  const pending: PendingAction[] = []
  let page_id: string | undefined
  do {
    const page = await client.call('searchEvents', {
      params: { conversation_id: id },
      query: { sort_order: 'TIMESTAMP_DESC', page_id },
      signal,
    })
    for (const event of page.items.map(asObject)) {
      const call = asString(event.tool_call_id)
      if (event.kind !== 'ActionEvent') {
        if (call !== '') answeredCalls.add(call)
        // A message of the user rejects the actions before it.
        else if (event.kind === 'MessageEvent') return pending
      } else if (!answeredCalls.has(call)) pending.unshift(toPendingAction(event))
    }
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
  return pending
}

function toPendingAction(event: JsonObject): PendingAction {
  return {
    id: asString(event.id),
    tool: sanitizeLine(asString(event.tool_name)),
    text: visibleText(actionText(event.action)).trim(),
    risk: sanitizeLine(asString(event.security_risk)),
    lines: questionLines(event),
  }
}

/** One line: tool, risk, command. */
export function formatPendingAction({ tool, text, risk }: PendingAction): string {
  return `${tool}${riskMark(risk)}: ${text}`
}

/** What actions do, whole and line by line, for a question. */
export function questionText(actions: readonly PendingAction[]): string {
  return actions.flatMap(({ lines }) => lines.map((line) => `  ${line}`)).join('\n')
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
    readonly isContinued: boolean
  },
  signal: AbortSignal,
): Promise<boolean> {
  const params = { conversation_id: id }
  const { accept, reason, actionIds, isContinued } = answer
  const body = { accept, ...(reason === undefined ? {} : { reason }), action_ids: [...actionIds] }
  try {
    await client.call('respondToConfirmation', { params, body, signal })
  } catch (error) {
    if (error instanceof CallError && error.status === 409) return false
    throw error
  }
  if (!accept && isContinued) await client.call('runConversation', { params, signal })
  return true
}
