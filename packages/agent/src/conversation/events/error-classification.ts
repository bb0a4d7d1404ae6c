/** What a failure is to whoever shows it (wire 3.5). */
export interface Classification {
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

const auth = of('auth', 'settings')
const quota = of('quota', 'settings')
const rateLimit = of('rate_limit', 'retry')
const config = of('config', 'settings')
const transient = of('transient', 'retry')
const internal = of('internal', 'none')

/** Of a call that failed: the agent sees it and goes on. */
export const ofCall = of('agent_action', 'retry')

const byCode: Readonly<Record<string, Classification>> = {
  LLMAuthenticationError: auth,
  ACPAuthRequired: auth,
  LLMRateLimitError: rateLimit,
  MaxBudgetReached: quota,
  LLMBadRequestError: config,
  ACPInitError: config,
  ACPSpawnError: config,
  InvalidSettings: config,
  LLMContextWindowExceedError: ofCall,
  LLMContextWindowTooSmallError: ofCall,
  LLMMalformedConversationHistoryError: ofCall,
  MaxIterationsReached: of('agent_action', 'none'),
  ConversationOwnershipLostError: of('agent_action', 'none'),
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

const byPhrase: readonly (readonly [phrase: RegExp, is: Classification])[] = [
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

const ofTransport: ReadonlySet<string> = new Set([
  'LLMTimeoutError',
  'LLMServiceUnavailableError',
  'LLMNoResponseError',
  'MCPTimeoutError',
])

/** By the code of a ConversationErrorEvent, then by what its detail says. */
export function classify(code: string, detail: string): Classification {
  if (Object.hasOwn(byCode, code)) return byCode[code] ?? unknown
  const found = byPhrase.find(([phrase]) => phrase.test(detail))
  if (found !== undefined) return found[1]
  return ofTransport.has(code) ? transient : unknown
}

const unknown = of('unknown', 'none')

function of(kind: Classification['kind'], user_action: Classification['user_action']): Classification {
  return { kind, retryable: user_action === 'retry', user_action }
}
