/** How a client should treat an error (wire 3.5). */
export interface ErrorClassification {
  readonly kind:
    | 'auth'
    | 'quota'
    | 'rate_limit'
    | 'config'
    | 'transient'
    | 'agent_action'
    | 'internal'
    | 'unknown'
  readonly retryable: boolean
  readonly user_action: 'none' | 'retry' | 'settings'
}

const auth = createClassification('auth', 'settings')
const quota = createClassification('quota', 'settings')
const rateLimit = createClassification('rate_limit', 'retry')
const config = createClassification('config', 'settings')
const transient = createClassification('transient', 'retry')
const internal = createClassification('internal', 'none')

/** For a failed call: the agent sees it and goes on. */
export const toolCallFailure = createClassification('agent_action', 'retry')

const byCode: Readonly<Record<string, ErrorClassification>> = {
  LLMAuthenticationError: auth,
  ACPAuthRequired: auth,
  LLMRateLimitError: rateLimit,
  MaxBudgetReached: quota,
  LLMBadRequestError: config,
  ACPInitError: config,
  ACPSpawnError: config,
  InvalidSettings: config,
  LLMContextWindowExceedError: toolCallFailure,
  LLMContextWindowTooSmallError: toolCallFailure,
  LLMMalformedConversationHistoryError: toolCallFailure,
  MaxIterationsReached: createClassification('agent_action', 'none'),
  ConversationOwnershipLostError: createClassification('agent_action', 'none'),
  TypeError: internal,
  RangeError: internal,
  ReferenceError: internal,
  SyntaxError: internal,
  EvalError: internal,
  URIError: internal,
  AggregateError: internal,
  KeyError: internal,
  ValueError: internal,
}

const byPhrase: readonly (readonly [phrase: RegExp, is: ErrorClassification])[] = [
  [
    /(invalid|incorrect|wrong|missing|no) (api[ _-]?)?key|api[ _-]?key (is )?(invalid|missing)|unauthori[sz]ed/i,
    auth,
  ],
  [
    /quota|billing|insufficient (funds|credit|balance)|credit balance|exceeded your (current )?(budget|plan)/i,
    quota,
  ],
  [/rate[ -]?limit|too many requests/i, rateLimit],
  [
    /provider (is )?not (found|known|provided)|unknown provider|model .*(not found|does not exist)|unknown model/i,
    config,
  ],
  [
    /time[d]?[ -]?out|\b50[0-4]\b|service unavailable|bad gateway|overloaded|connection (refused|reset)/i,
    transient,
  ],
]

const transientCodes: ReadonlySet<string> = new Set([
  'LLMTimeoutError',
  'LLMServiceUnavailableError',
  'LLMNoResponseError',
  'MCPTimeoutError',
])

/** Classifies by the code of a ConversationErrorEvent, then by its detail. */
export function classifyError(code: string, detail: string): ErrorClassification {
  if (Object.hasOwn(byCode, code)) return byCode[code] ?? unknown
  const found = byPhrase.find(([phrase]) => phrase.test(detail))
  if (found !== undefined) return found[1]
  return transientCodes.has(code) ? transient : unknown
}

const unknown = createClassification('unknown', 'none')

function createClassification(
  kind: ErrorClassification['kind'],
  user_action: ErrorClassification['user_action'],
): ErrorClassification {
  return { kind, retryable: user_action === 'retry', user_action }
}
