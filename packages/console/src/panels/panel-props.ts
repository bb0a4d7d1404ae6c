import type { CallOutput } from '@slipway/client'

/** What each panel gets: the conversation that it is about. */
export interface PanelProps {
  readonly id: string
  readonly info: CallOutput<'getConversation'>
}
