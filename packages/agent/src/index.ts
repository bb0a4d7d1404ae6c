import { agentContext } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import type { Conversation, OpenOptions } from './conversation/conversation.ts'
import type { OpenModel } from './llm/model.ts'
import type { LoadedSkills } from './skills/found.ts'

export type { Conversation } from './conversation/conversation.ts'
export type { Rim, Settings } from './conversation/equipment.ts'
export { finalResponse } from './conversation/final-response.ts'
export { type Hint, Hints } from './conversation/hints.ts'
export { type LoadedHooks, loadHooks } from './conversation/hook-config.ts'
export type { Keeping } from './conversation/keeping.ts'
export { combinedMetrics, Stats } from './conversation/stats.ts'
export type { FailureCode, Model, OpenModel } from './llm/model.ts'
export { Secrets } from './secrets.ts'
export type { LoadedSkills as ListedSkills } from './skills/found.ts'
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

/**
 * The skills of a project and of a user's home, as far as they are given; those of the project go first where names clash. What
 * was passed over is among the faults. Rejects only when aborted.
 */
export async function listSkills(
  from: { readonly project: string | undefined; readonly home: string | undefined },
  signal: AbortSignal,
): Promise<LoadedSkills> {
  const { loadSkills } = await import('./skills/load.ts')
  const context = agentContext.parse({
    load_project_skills: from.project !== undefined,
    load_user_skills: from.home !== undefined,
  })
  return await loadSkills({ directory: from.project ?? '/', home: from.home, context }, signal)
}
