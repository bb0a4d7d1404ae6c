import type { Client } from '@slipway/client'

/** The events of a conversation as its agent server reports them. */
export interface AgentLog {
  readonly conversation: string
  readonly count: number
  /** Id of the newest event; undefined when there is none. */
  readonly last: string | undefined
}

/**
 * Whether nothing runs in an agent server and the control plane has all its events, as `hasAllEvents` knows.
 * A message that arrives directly afterwards, and not through the control plane, is not noticed. Rejects when
 * it does not answer.
 */
export async function askCaughtUp(
  client: Client,
  hasAllEvents: (log: AgentLog) => Promise<boolean>,
  signal: AbortSignal,
): Promise<boolean> {
  const page = { limit: '100', include_skills: 'false' }
  let page_id: string | undefined
  do {
    const query = page_id === undefined ? page : { ...page, page_id }
    const found = await client.call('searchConversations', { query, signal })
    for (const { id } of found.items)
      if (!(await hasAllEvents(await readLog(client, id, signal)))) return false
    page_id = found.next_page_id ?? undefined
  } while (page_id !== undefined)
  // Asked last, so that it includes a run that has just begun.
  return (await client.call('countConversations', { query: { status: 'running' }, signal })) === 0
}

async function readLog(client: Client, conversation: string, signal: AbortSignal): Promise<AgentLog> {
  const params = { conversation_id: conversation }
  const query = { limit: '1', sort_order: 'TIMESTAMP_DESC' } as const
  const newest = await client.call('searchEvents', { params, query, signal })
  const count = await client.call('countEvents', { params, query: {}, signal })
  return { conversation, count, last: newest.items[0]?.id }
}
