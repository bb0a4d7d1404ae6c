import type { EventLog } from '@slipway/storage'
import type { Conversation, OpenOptions } from './conversation/conversation.ts'
import type { OpenModel } from './llm/model.ts'

export type { Conversation } from './conversation/conversation.ts'
export type { Rim, Settings } from './conversation/equipment.ts'
export { finalResponse } from './conversation/final-response.ts'
export { type Hint, Hints } from './conversation/hints.ts'
export type { Keeping } from './conversation/keeping.ts'
export { combinedMetrics, Stats } from './conversation/stats.ts'
export type { Model, OpenModel } from './llm/model.ts'
export { findTool, toolNames, usableTools } from './tools/index.ts'
export { Workspace } from './workspace.ts'

/** Opens a conversation (see `Conversation.open`). What runs agents is loaded with the first of them, not with the server. */
export async function openConversation(options: OpenOptions): Promise<Conversation> {
  const { Conversation } = await import('./conversation/conversation.ts')
  return await Conversation.open(options)
}

/** What opens the models of all providers; it loads nothing of theirs before a model is asked. */
export async function models(): Promise<OpenModel> {
  return (await import('./llm/open-model.ts')).openModel
}

/** Brings a log that was cut off anywhere to rest: each action without a result is answered, and the status is idle. */
export async function settle(log: EventLog, conversation: string): Promise<void> {
  await (await import('./conversation/settle.ts')).settle(log, conversation)
}
