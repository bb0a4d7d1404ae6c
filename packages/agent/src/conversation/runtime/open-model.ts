import type { Llm } from '@slipway/protocol'
import type { Model } from '../../llm/model.ts'
import { learnedModelName } from '../../llm/route.ts'
import type { ConversationContext } from './conversation-context.ts'
import { instrumentModel } from './instrumentation.ts'

/** Opens a model for requests of a conversation, with what it has learned about the model's window. */
export function openConversationModel(context: ConversationContext, llm: Llm): Model {
  const { id: cacheKey, deps, leftOut } = context
  const { openModel, findProfile, monitor, clock } = deps
  const model = instrumentModel(openModel(llm, { clock, findProfile, cacheKey, leftOut }), monitor)
  model.learnedWindow = context.state.learnedWindows?.[learnedModelName(llm)]
  return model
}
