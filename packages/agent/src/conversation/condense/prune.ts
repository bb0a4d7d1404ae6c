import type { Model } from '../../llm/model.ts'
import { textMessage } from '../events/event-drafts.ts'
import { type ContentBlock, resultBlocks } from '../view/content-blocks.ts'
import { messageLimits } from '../view/message-limits.ts'
import { Projection } from '../view/projection.ts'
import { pruneResult } from '../view/prune-result.ts'
import type { View } from '../view/view.ts'
import { groupUnits } from '../view/view-units.ts'

/**
 * Shares of the limit: results of this size at the end stay whole; less to gain than this is not worth it.
 */
const protectedShare = 0.3
const minGainShare = 0.2
/** Smaller results stay. */
const minTokens = 400

/**
 * Ids of old results of tools that need not be shown whole any more, when that makes the request smaller by a
 * fifth of the limit at least; else none. A summary is dearer and loses more. `limit` in the model's
 * estimate.
 */
export function planPruning(view: View, limit: number, model: Model): readonly string[] {
  const limits = messageLimits(model)
  const projection = new Projection(limits)
  const ids: string[] = []
  let [later, gain] = [0, 0]
  for (const unit of groupUnits(view.events).toReversed()) {
    const tokens = model.countTokens(projection.messagesOf(unit))
    const isOld = later >= limit * protectedShare
    later += tokens
    if (!isOld || unit.kind !== 'batch' || tokens < minTokens) continue
    for (const { result } of unit.calls) {
      if (result?.kind !== 'ObservationEvent' || view.isPruned(result.id)) continue
      const sizeOf = (event: typeof result) =>
        model.countTokens([textMessage('user', blocksText(resultBlocks(event, limits.chars)))])
      const saved = sizeOf(result) - sizeOf(pruneResult(result))
      if (saved < minTokens / 2) continue
      ids.push(result.id)
      gain += saved
    }
  }
  return gain >= limit * minGainShare ? ids : []
}

function blocksText(blocks: readonly ContentBlock[]): string {
  return blocks.map((block) => (block.type === 'text' ? block.text : '')).join('\n')
}
