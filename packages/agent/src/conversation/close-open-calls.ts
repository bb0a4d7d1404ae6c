import type { WireVersion } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import { agentErrorEvent, endedExternalCalls, statusUpdate } from './events/event-drafts.ts'
import { eventFormatter } from './events/event-format.ts'
import { ConversationWriter } from './events/writer.ts'
import { endGoalEvents } from './loop/goal.ts'

const forkedText = 'The call was not done here: the conversation was forked before it had a result.'

/**
 * Of a fork, whose log is truncated: each tool call without a result gets an error, and the status is idle.
 */
export async function closeOpenCalls(
  log: EventLog,
  conversation: string,
  wire: WireVersion = 'seed',
): Promise<void> {
  const writer = await ConversationWriter.open(conversation, log, { format: eventFormatter(wire) })
  await writer.write((now) => ({
    events: [
      ...endedExternalCalls(now, 'failed'),
      ...now.openActions().map((call) => agentErrorEvent(call, forkedText)),
      ...endGoalEvents(now),
      ...(now.status === 'idle' ? [] : [statusUpdate('idle')]),
    ],
  }))
}
