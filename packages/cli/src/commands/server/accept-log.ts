import { acceptLog } from '@slipway/agent-server/maintenance'
import { printResult } from '../../output/terminal.ts'

/** Makes the present log of a data directory the one that its other files belong to. */
export async function acceptLogCommand(options: {
  readonly data: string
  readonly empty: boolean
  readonly isJson: boolean
}): Promise<void> {
  const accepted = await acceptLog(options.data, options.empty)
  const { path, generation, conversations, events } = accepted
  const text =
    `${path} is accepted as generation ${generation}: ${conversations} conversations with ${events} events.\n` +
    'Readers with events that it does not have are told to start again.'
  await printResult(options.isJson, accepted, text)
}
