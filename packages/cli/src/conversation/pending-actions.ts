import type { Client } from '@slipway/client'
import { actionText, type Members, membersOf, textOf } from '../output/action-text.ts'
import { cut, visible } from '../output/sanitize.ts'

/** An action that waits for an answer, safe to print. */
export interface WaitingAction {
  readonly tool: string
  /** What it does, in one line of at most 500 characters. */
  readonly words: string
  readonly risk: string
}

/** The actions of a conversation that have no result yet, the oldest first. */
export async function waitingActions(
  client: Client,
  id: string,
  signal: AbortSignal,
): Promise<WaitingAction[]> {
  const answered = new Set<string>()
  const found: WaitingAction[] = []
  let page_id: string | undefined
  do {
    const page = await client.call('searchEvents', {
      params: { conversation_id: id },
      query: { sort_order: 'TIMESTAMP_DESC', page_id },
      signal,
    })
    for (const event of page.items.map(membersOf)) {
      const call = textOf(event.tool_call_id)
      if (event.kind !== 'ActionEvent') {
        if (call !== '') answered.add(call)
        // Nothing waits across a message of the user: it rejects what did.
        else if (event.kind === 'MessageEvent') return found
      } else if (!answered.has(call)) found.unshift(asWaiting(event))
    }
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
  return found
}

function asWaiting(event: Members): WaitingAction {
  return {
    tool: visible(textOf(event.tool_name)),
    words: cut(visible(cut(actionText(event.action), 2000)), 500).trim(),
    risk: visible(textOf(event.security_risk)),
  }
}

/** One line: tool, command, risk. */
export function inOneLine({ tool, words, risk }: WaitingAction): string {
  return `${tool}: ${words}${risk === 'HIGH' || risk === 'MEDIUM' ? ` [${risk}]` : ''}`
}
