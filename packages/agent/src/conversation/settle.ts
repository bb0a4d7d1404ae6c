import type { EventLog } from '@slipway/storage'
import { agentError, statusUpdate } from './drafts.ts'
import { Pen } from './pen.ts'

const forked = 'The call was not done here: the conversation was forked before it had a result.'

/** Brings a log that was cut off anywhere to rest: each action without a result is answered, and the status is idle. */
export async function settle(log: EventLog, conversation: string): Promise<void> {
  const pen = await Pen.open(conversation, log)
  await pen.write((now) => ({
    events: [
      ...now.unanswered().map((call) => agentError(call, forked)),
      ...(now.status === 'idle' ? [] : [statusUpdate('idle')]),
    ],
  }))
}
