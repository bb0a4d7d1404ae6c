import type { Wire } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import { agentError, statusUpdate } from './events/event-drafts.ts'
import { dressFor } from './events/event-format.ts'
import { Pen } from './events/writer.ts'
import { endGoal } from './loop/goal.ts'

const forked = 'The call was not done here: the conversation was forked before it had a result.'

/** Brings a log that was cut off anywhere to rest: each action without a result is answered, and the status is idle. */
export async function settle(log: EventLog, conversation: string, wire: Wire = 'seed'): Promise<void> {
  const pen = await Pen.open(conversation, log, { dress: dressFor(wire) })
  await pen.write((now) => ({
    events: [
      ...now.wanted().map((call) => agentError(call, forked)),
      ...endGoal(now),
      ...(now.status === 'idle' ? [] : [statusUpdate('idle')]),
    ],
  }))
}
