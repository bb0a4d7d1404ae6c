import type { Model } from '../../llm/model.ts'
import { learnedModelName } from '../../llm/route.ts'

/** Estimates are rather too high, but not by so much. */
const maxCountedShare = 0.3
const minMissingTokens = 4_000

/**
 * What to tell when a server counted far fewer tokens than were sent: it cut the request to its window
 * without a word, and the model may see neither its tools nor the task. Some servers leave cached tokens out
 * of their counts, so the first request of a model alone is looked at.
 */
export function windowNotice(model: Model, counted: number, estimated: number) {
  if (counted === 0 || counted > estimated * maxCountedShare || estimated - counted < minMissingTokens)
    return undefined
  const isOllama = /^ollama/.test(model.llm.model)
  const how = isOllama ? 'Raise it with OLLAMA_CONTEXT_LENGTH or num_ctx' : 'Raise its context window'
  const text = `The server counted ${counted} tokens of a request of about ${estimated}: it may have cut the request to its context window, and the model does not see all of it. ${how}, or set max_input_tokens to what it takes.`
  return { model: learnedModelName(model.llm), text }
}
