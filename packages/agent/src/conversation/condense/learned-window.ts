import type { Llm } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { LearnedWindow } from '../../llm/model.ts'
import { namedWindows } from '../../llm/refusals/named-window.ts'
import { learnedModelName } from '../../llm/route.ts'
import { stateUpdate } from '../events/event-drafts.ts'
import { learnedWindowKey } from '../state/state.ts'

/**
 * What refusals teach about a model's window. Many servers say nowhere how many tokens they take, or take
 * fewer than is published; they refuse a request that is longer. The limit is kept in the log, for this
 * conversation and model, so that no later run, restart or fork asks without success again.
 */

/** Without a number in the refusal the next request is this much smaller. */
const shrinkFactor = 0.75
/** Below it no agent works: a number is something else. */
const minWindow = 512

/**
 * The window that a refusal teaches. `requestTokens`: the size of the refused request as estimated; `known`:
 * the window so far. A named limit counts only when it is news.
 */
export function learnWindow(
  detail: string,
  { requestTokens, known = Number.POSITIVE_INFINITY }: { requestTokens: number; known?: number | undefined },
): LearnedWindow {
  const named = namedWindows(detail).find((tokens) => tokens >= minWindow && tokens < known)
  if (named !== undefined) return { tokens: named, isNamed: true }
  const guess = Math.floor(Math.min(requestTokens, known) * shrinkFactor)
  return { tokens: Math.max(minWindow, guess), isNamed: false }
}

export function learnedWindowEvent(llm: Llm, { tokens, isNamed }: LearnedWindow): EventDraft {
  return stateUpdate(learnedWindowKey, { model: learnedModelName(llm), tokens, is_named: isNamed })
}
