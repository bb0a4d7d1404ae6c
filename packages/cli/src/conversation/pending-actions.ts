import { CallError, type Client } from '@slipway/client'
import { actionText, asObject, asString, type JsonObject, riskMark } from '../output/action-text.ts'
import { sanitizeLine, sanitizeVerbatim, truncate } from '../output/sanitize.ts'

/** An action that waits for confirmation, safe to print. */
export interface PendingAction {
  /** Of its ActionEvent. */
  readonly id: string
  readonly tool: string
  /** What it does, in one line of at most 500 characters. */
  readonly text: string
  readonly risk: string
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
    text: truncate(sanitizeVerbatim(truncate(actionText(event.action), 2000)), 500).trim(),
    risk: sanitizeLine(asString(event.security_risk)),
  }
}

/** One line: tool, command, risk. */
export function formatPendingAction({ tool, text, risk }: PendingAction): string {
  return `${tool}: ${text}${riskMark(risk)}`
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
