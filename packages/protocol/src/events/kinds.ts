// Printed by `npx node scripts/print-openapi.ts`; do not edit.

export const eventKinds = [
  'Condensation',
  'CondensationRequest',
  'CondensationSummaryEvent',
  'ConversationErrorEvent',
  'ConversationStateUpdateEvent',
  'LLMCompletionLogEvent',
  'ActionEvent',
  'MessageEvent',
  'AgentErrorEvent',
  'ObservationEvent',
  'UserRejectObservation',
  'SystemPromptEvent',
  'TokenEvent',
  'PauseEvent',
] as const

/** By kind; a kind without one is left out. */
export const defaultSources = {
  Condensation: 'environment',
  CondensationRequest: 'environment',
  CondensationSummaryEvent: 'environment',
  ConversationStateUpdateEvent: 'environment',
  LLMCompletionLogEvent: 'environment',
  ActionEvent: 'agent',
  AgentErrorEvent: 'agent',
  ObservationEvent: 'environment',
  UserRejectObservation: 'environment',
  SystemPromptEvent: 'agent',
  PauseEvent: 'user',
} as const
