import type { Wire } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import { agentError, statusUpdate } from './drafts.ts'
import { endGoal } from './goal.ts'
import { Pen } from './pen.ts'
import { dressFor } from './wire-dress.ts'

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
