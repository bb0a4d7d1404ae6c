import { invalidInput, observabilityMembers, type StartConversationRequest } from '@slipway/protocol'

const prefix = 'x-openhands-observability-'

/**
 * The request with what the headers say about its traces: they fill members that the body leaves out, and the
 * body's keys of metadata win. Problem `invalid` for what may not be a name, a tag or metadata.
 */
export function withObservabilityHeaders(
  request: StartConversationRequest,
  header: (name: string) => string | undefined,
): StartConversationRequest {
  const read = <K extends keyof typeof observabilityMembers>(
    member: K,
    name: string,
    parse: (text: string) => unknown = (text) => text,
  ) => {
    const text = header(`${prefix}${name}`)
    if (text === undefined || text === '') return undefined
    const { data, error } = observabilityMembers[member].safeParse(parse(text))
    if (error === undefined) return data as StartConversationRequest[K]
    throw invalidInput(['header', `${prefix}${name}`], error.issues[0]?.message ?? 'Invalid value')
  }
  // All are read, so that a header is refused also where the body decides.
  const spanName = read('observability_span_name', 'span-name')
  const tags = read('observability_tags', 'tags', parseTags)
  const parent = read('observability_parent_span_context', 'parent-span-context')
  const metadata = read('observability_metadata', 'metadata', parseObject)
  const merged = { ...metadata, ...request.observability_metadata }
  return {
    ...request,
    observability_span_name: request.observability_span_name ?? spanName,
    observability_tags: request.observability_tags ?? tags,
    observability_parent_span_context: request.observability_parent_span_context ?? parent,
    observability_metadata: Object.keys(merged).length === 0 ? undefined : merged,
  }
}

function parseTags(text: string): string[] {
  return text
    .split(',')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '')
}

/** A text that is no JSON stays one, which is no object. */
function parseObject(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
