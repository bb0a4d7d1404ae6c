import type { Llm } from '@slipway/protocol'
import type { Model } from '../../llm/model.ts'
import type { ConversationContext } from './conversation-context.ts'
import { instrumentModel } from './instrumentation.ts'

/** Opens a model for requests of a conversation. */
export function openConversationModel({ id: cacheKey, deps }: ConversationContext, llm: Llm): Model {
  const { openModel, findProfile, monitor, clock } = deps
  return instrumentModel(openModel(llm, { clock, findProfile, cacheKey }), monitor)
}
