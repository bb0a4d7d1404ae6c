import type { Model } from '../../llm/model.ts'
import { learnedModelName } from '../../llm/route.ts'

/** Estimates are rather too high, but not by so much. */
const maxCountedShare = 0.3
const minMissingTokens = 4_000

/** What to tell about a model's server after the first reply; undefined: nothing. */
export function modelNotice(model: Model, sizes: { counted: number; estimated: number; hasTools: boolean }) {
  const isToolless = sizes.hasTools && model.dropsTools === true
  const texts = [windowText(model, sizes), isToolless && toollessText].filter(Boolean)
  return texts.length === 0 ? undefined : { model: learnedModelName(model.llm), text: texts.join(' ') }
}

const toollessText =
  'The chat template of this model has no tools: they are described in its prompt, and its calls are read from its text. A model that was trained for tools calls them more reliably.'

/**
 * A server that counted far fewer tokens than were sent has cut the request to its window without a word, and
 * the model may see neither its tools nor the task. Some servers leave cached tokens out of their counts, so
 * the first request of a model alone is looked at.
 */
function windowText({ llm }: Model, { counted, estimated }: { counted: number; estimated: number }) {
  if (counted === 0 || counted > estimated * maxCountedShare || estimated - counted < minMissingTokens)
    return undefined
  const isOllama = /^ollama/.test(llm.model)
  const how = isOllama ? 'Raise it with OLLAMA_CONTEXT_LENGTH or num_ctx' : 'Raise its context window'
  return `The server counted ${counted} tokens of a request of about ${estimated}: it may have cut the request to its context window, and the model does not see all of it. ${how}, or set max_input_tokens to what it takes.`
}
