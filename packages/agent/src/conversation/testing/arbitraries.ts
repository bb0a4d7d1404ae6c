import fc from 'fast-check'
import type { LogEvent } from '../view/log-event.ts'

/** Random logs for tests: whatever can stand in a log, in any order, with every kind of damage to pairs. */

type CallOutcome = 'observation' | 'failed' | 'error' | 'reject' | 'none' | 'twice'

type LogStep =
  | { readonly step: 'system'; readonly context: boolean }
  | { readonly step: 'message'; readonly source: 'user' | 'environment' | 'agent'; readonly text: string }
  | {
      readonly step: 'batch'
      readonly thought: string
      readonly thinks: boolean
      readonly sameIds: boolean
      readonly sameResponse: boolean
      readonly interrupted: boolean
      readonly isReversed: boolean
      readonly answers: readonly CallOutcome[]
    }
  | { readonly step: 'other' }
  | { readonly step: 'stray' }
  | { readonly step: 'late'; readonly pick: number }
  | {
      readonly step: 'condensation'
      readonly picks: readonly number[]
      readonly summary: string | null
      readonly offset: number | null
    }

const texts = fc.constantFrom(
  '',
  ' ',
  'yes',
  'Look into the tests, please.',
  'x'.repeat(300),
  'äöü 🙂'.repeat(40),
)
const answers = fc.constantFrom<CallOutcome[]>(
  'observation',
  'observation',
  'failed',
  'error',
  'reject',
  'none',
  'twice',
)
const batch = fc.record({
  step: fc.constant('batch' as const),
  thought: texts,
  thinks: fc.boolean(),
  sameIds: fc.boolean(),
  sameResponse: fc.boolean(),
  interrupted: fc.boolean(),
  isReversed: fc.boolean(),
  answers: fc.array(answers, { minLength: 1, maxLength: 4 }),
})
const message = fc.record({
  step: fc.constant('message' as const),
  source: fc.constantFrom('user' as const, 'user' as const, 'environment' as const, 'agent' as const),
  text: texts,
})
const condensation = fc.record({
  step: fc.constant('condensation' as const),
  picks: fc.array(fc.nat(), { maxLength: 12 }),
  summary: fc.option(texts),
  offset: fc.option(fc.nat({ max: 12 })),
})
const step: fc.Arbitrary<LogStep> = fc.oneof(
  { weight: 5, arbitrary: batch },
  { weight: 3, arbitrary: message },
  { weight: 1, arbitrary: condensation },
  { weight: 1, arbitrary: fc.record({ step: fc.constant('system' as const), context: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constantFrom<LogStep[]>({ step: 'other' }, { step: 'stray' }) },
  { weight: 1, arbitrary: fc.record({ step: fc.constant('late' as const), pick: fc.nat() }) },
)

export const arbitraryLog: fc.Arbitrary<LogEvent[]> = fc
  .array(step, { maxLength: 40, size: 'max' })
  .map(buildLog)

/** Without the condensations of others: a log as the loop writes it, but for the damage. */
export const arbitraryOwnLog: fc.Arbitrary<LogEvent[]> = fc
  .array(step, { maxLength: 60, size: 'max' })
  .map((steps) =>
    buildLog([{ step: 'system', context: true }, ...steps.filter((one) => one.step !== 'condensation')]),
  )

function buildLog(steps: readonly LogStep[]): LogEvent[] {
  const log: LogEvent[] = []
  for (const [index, one] of steps.entries()) log.push(...buildEvents(one, { log, prefix: `e${index}` }))
  return log
}

interface LogContext {
  readonly log: readonly LogEvent[]
  readonly prefix: string
}

function buildEvents(one: LogStep, { log, prefix }: LogContext): LogEvent[] {
  switch (one.step) {
    case 'system': {
      const dynamic_context = one.context ? { type: 'text' as const, text: 'Today is Sunday.' } : null
      const system_prompt = { type: 'text' as const, text: `You are ${prefix}.` }
      return [
        { id: prefix, kind: 'SystemPromptEvent', source: 'agent', system_prompt, tools: [], dynamic_context },
      ]
    }
    case 'message':
      return [messageEvent(prefix, one.source, one.text)]
    case 'batch':
      return batchEvents(one, prefix)
    case 'other':
      return [
        { id: `${prefix}a`, kind: 'ConversationStateUpdateEvent', key: 'execution_status', value: 'running' },
        { id: `${prefix}b`, kind: 'PauseEvent' },
        {
          id: `${prefix}c`,
          kind: 'TokenEvent',
          source: 'agent',
          prompt_token_ids: [],
          response_token_ids: [],
        },
      ]
    case 'stray':
      return [observationEvent({ id: prefix, action_id: 'nobody', call: 'nobody', isError: false })]
    case 'late': {
      const value = log.length === 0 ? 'nobody' : log[one.pick % log.length]?.id
      return [{ id: prefix, kind: 'ConversationStateUpdateEvent', key: 'last_user_message_id', value }]
    }
    case 'condensation': {
      const ids = log.flatMap(({ id, kind }) => (kind === 'Condensation' ? [`${id}-summary`] : [id]))
      const forgotten_event_ids = [...one.picks.map((pick) => ids[pick % ids.length] ?? 'nobody'), 'nobody']
      const { summary, offset: summary_offset } = one
      return [
        {
          id: prefix,
          kind: 'Condensation',
          forgotten_event_ids,
          summary,
          summary_offset,
          llm_response_id: prefix,
        },
      ]
    }
  }
}

export function messageEvent(id: string, source: 'user' | 'environment' | 'agent', text: string): LogEvent {
  const role = source === 'agent' ? 'assistant' : 'user'
  return { id, kind: 'MessageEvent', source, llm_message: { role, content: [{ type: 'text', text }] } }
}

function batchEvents(one: Extract<LogStep, { step: 'batch' }>, prefix: string): LogEvent[] {
  const calls = one.answers.map((answer, index) => ({
    answer,
    id: `${prefix}a${index}`,
    call: one.sameIds ? `call_${index}` : `${prefix}c${index}`,
    response: one.sameResponse ? 'the-same' : prefix,
  }))
  const actions = calls.map(({ id, call, response }, index) =>
    actionEvent({
      id,
      call,
      response,
      thought: index === 0 ? one.thought : '',
      thinks: index === 0 && one.thinks,
    }),
  )
  const results = calls.flatMap(({ answer, id, call }) => resultEvents(answer, id, call))
  const between = one.interrupted ? [messageEvent(`${prefix}m`, 'user', 'And one thing more.')] : []
  return [...actions, ...between, ...(one.isReversed ? results.reverse() : results)]
}

function resultEvents(answer: CallOutcome, action_id: string, call: string): LogEvent[] {
  const own = { tool_name: 'terminal', tool_call_id: call }
  const error = { ...own, id: `${action_id}e`, kind: 'AgentErrorEvent', error: 'It broke.' } as const
  const success = observationEvent({ id: `${action_id}o`, action_id, call, isError: answer === 'failed' })
  switch (answer) {
    case 'none':
      return []
    case 'error':
      return [error]
    case 'reject':
      return [
        { ...own, id: `${action_id}r`, kind: 'UserRejectObservation', action_id, rejection_reason: 'No.' },
      ]
    case 'twice':
      return [error, success]
    default:
      return [success]
  }
}

export function actionEvent(options: {
  readonly id: string
  readonly call?: string
  readonly response?: string
  readonly thought?: string
  readonly thinks?: boolean
  readonly command?: string
}): LogEvent {
  const { id, call = `${id}c`, response = `${id}r`, thought = '', thinks = false, command = 'ls' } = options
  return {
    id,
    kind: 'ActionEvent',
    source: 'agent',
    thought: thought === '' ? [] : [{ type: 'text', text: thought }],
    ...(thinks ? { thinking_blocks: [{ type: 'thinking', thinking: 'hm', signature: `sig-${id}` }] } : {}),
    action: { command, is_input: false, reset: false, kind: 'TerminalAction' },
    tool_name: 'terminal',
    tool_call_id: call,
    tool_call: { id: call, name: 'terminal', arguments: JSON.stringify({ command }), origin: 'completion' },
    llm_response_id: response,
  }
}

export function observationEvent(options: {
  readonly id: string
  readonly action_id: string
  readonly call?: string
  readonly isError?: boolean
  readonly text?: string
}): LogEvent {
  const { id, action_id, call = `${action_id}c`, isError = false, text = 'a.ts' } = options
  const content = [{ cache_prompt: true, type: 'text' as const, text }]
  return {
    id,
    kind: 'ObservationEvent',
    source: 'environment',
    tool_name: 'terminal',
    tool_call_id: call,
    action_id,
    observation: { content, is_error: isError, command: 'ls', kind: 'TerminalObservation', timeout: false },
  }
}
