/** How a client should treat an error (wire 3.5). */
type ErrorClassification = ReturnType<typeof createClassification>

const auth = createClassification('auth', 'settings')
const quota = createClassification('quota', 'settings')
const rateLimit = createClassification('rate_limit', 'retry')
const config = createClassification('config', 'settings')
const transient = createClassification('transient', 'retry')
const internal = createClassification('internal', 'none')

/** For a failed call: the agent sees it and continues. */
export const toolCallFailure = createClassification('agent_action', 'retry')

type Rule = readonly [pattern: RegExp, is: ErrorClassification]

const byCode: readonly Rule[] = [
  [/^(LLMAuthenticationError|ACPAuthRequired)$/, auth],
  [/^LLMRateLimitError$/, rateLimit],
  [/^(MaxBudgetReached|BudgetExceeded)$/, quota],
  [/^(LLMBadRequestError|ACPInitError|ACPSpawnError|InvalidSettings)$/, config],
  [/^LLM(ContextWindowExceed|ContextWindowTooSmall|MalformedConversationHistory)Error$/, toolCallFailure],
  [/^MaxOutputTokensReached$/, config],
  [
    /^(MaxIterationsReached|NoNewOutput|ConversationOwnershipLostError)$/,
    createClassification('agent_action', 'none'),
  ],
  [/^(Type|Range|Reference|Syntax|Eval|URI|Aggregate|Key|Value)Error$/, internal],
]

const byPhrase: readonly Rule[] = [
  [/(invalid|incorrect|wrong|missing|no) (api[ _-]?)?key|api[ _-]?key (is )?(invalid|missing)/i, auth],
  [/unauthori[sz]ed/i, auth],
  [/quota|billing|insufficient (funds|credit|balance)|credit balance/i, quota],
  [/exceeded your (current )?(budget|plan)/i, quota],
  [/rate[ -]?limit|too many requests/i, rateLimit],
  [/provider (is )?not (found|known|provided)|unknown provider/i, config],
  [/model .*(not found|does not exist)|unknown model/i, config],
  [/time[d]?[ -]?out|\b50[0-4]\b|service unavailable|bad gateway|overloaded/i, transient],
  [/connection (refused|reset)/i, transient],
]

const transientCodes =
  /^(LLMTimeoutError|LLMServiceUnavailableError|LLMNoResponseError|MCPTimeoutError|StorageError|RunCutByRestart)$/

/** Classifies by the code of a ConversationErrorEvent, then by its detail. */
export function classifyError(code: string, detail: string): ErrorClassification {
  const rule = byCode.find(([codes]) => codes.test(code)) ?? byPhrase.find(([phrase]) => phrase.test(detail))
  return rule?.[1] ?? (transientCodes.test(code) ? transient : unknown)
}

const unknown = createClassification('unknown', 'none')

function createClassification(kind: string, user_action: 'none' | 'retry' | 'settings') {
  return { kind, retryable: user_action === 'retry', user_action }
}
