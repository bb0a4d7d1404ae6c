import { resultBlocks, shorten } from './content-blocks.ts'
import type { LogEventOf } from './log-event.ts'

/**
 * Key of the state update whose value has the ids of results that the model sees only shortened from then on.
 */
export const prunedResultsKey = 'pruned_results'

const maxPrunedChars = 600
const note = '[This old result is shortened; call the tool again if you need the rest.]'

/** A result as the model sees it when it is pruned: beginning and end of its text, no images. */
export function pruneResult(event: LogEventOf<'ObservationEvent'>): LogEventOf<'ObservationEvent'> {
  const text = resultBlocks(event, Number.POSITIVE_INFINITY)
    .map((block) => (block.type === 'text' ? block.text : '[image]'))
    .join('\n')
  const { observation } = event
  const content = [{ type: 'text', text: `${note}\n${shorten(text, maxPrunedChars)}` }]
  // Only what a message is made of.
  return { ...event, observation: { kind: observation?.kind, content } as unknown as typeof observation }
}
