import { Problem } from '@slipway/protocol'
import type { Storage } from '@slipway/storage'
import { sendMessage } from '../conversations/lifecycle/send-message.ts'
import type { ConversationRegistry } from '../conversations/registry.ts'
import type { Peers } from '../peers/peers.ts'
import type { Activity } from '../server/activity.ts'
import { FrameError, parseMessageFrame } from './parse-frame.ts'

/** Names of errors as clients compare them. */
const errorCodes: Readonly<Record<string, string>> = {
  invalid: 'ValidationError',
  too_many: 'ConversationRunLimitExceeded',
}

export interface MessageReceiver {
  readonly storage: Storage
  readonly registry: ConversationRegistry
  readonly activity: Activity
  /** Other servers on the database. */
  readonly peers?: Pick<Peers, 'sendMessage'> | undefined
}

/** Sends and runs the message of a client frame; returns an error when the frame is refused. */
export async function receiveMessage(
  receiver: MessageReceiver,
  conversation: string,
  text: string,
): Promise<{ readonly code: string; readonly detail: string } | undefined> {
  try {
    const message = parseMessageFrame(text)
    receiver.activity.record()
    const request = { ...message, run: true }
    const sendHere = () => sendMessage(receiver, conversation, { message: request })
    await (receiver.peers?.sendMessage(conversation, request, sendHere) ?? sendHere())
    return undefined
  } catch (error) {
    if (!(error instanceof Problem || error instanceof FrameError)) throw error
    return { code: errorCodes[error.code] ?? error.code, detail: error.message }
  }
}
