import { expect, test } from 'vitest'
import { classifyError } from './error-classification.ts'

test.each([
  ['LLMAuthenticationError', 'whatever', 'auth', false, 'settings'],
  ['LLMRateLimitError', 'Invalid API key', 'rate_limit', true, 'retry'],
  ['LLMBadRequestError', '', 'config', false, 'settings'],
  ['LLMContextWindowExceedError', '', 'agent_action', true, 'retry'],
  ['LLMMalformedConversationHistoryError', '', 'agent_action', true, 'retry'],
  ['MaxIterationsReached', 'limit (5)', 'agent_action', false, 'none'],
  ['MaxBudgetReached', '', 'quota', false, 'settings'],
  ['BudgetExceeded', '', 'quota', false, 'settings'],
  ['TypeError', 'timeout', 'internal', false, 'none'],
  ['LLMError', 'Incorrect API key provided: ***', 'auth', false, 'settings'],
  ['LLMError', 'You exceeded your current quota', 'quota', false, 'settings'],
  ['LLMError', 'Too Many Requests', 'rate_limit', true, 'retry'],
  ['LLMError', 'The model `x` does not exist', 'config', false, 'settings'],
  ['LLMError', '503 Service Unavailable', 'transient', true, 'retry'],
  ['LLMTimeoutError', '', 'transient', true, 'retry'],
  ['LLMServiceUnavailableError', 'gone', 'transient', true, 'retry'],
  ['MCPError', 'MCP servers did not start.', 'unknown', false, 'none'],
  ['__proto__', '', 'unknown', false, 'none'],
])('%s (%s) is of the kind %s', (code, detail, kind, retryable, user_action) => {
  expect(classifyError(code, detail)).toEqual({ kind, retryable, user_action })
})
