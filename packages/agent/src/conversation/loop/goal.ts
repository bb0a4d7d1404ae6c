import { type GoalState, type GoalVerdict, goalVerdict } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { ModelReply } from '../../llm/model.ts'
import { stateUpdate, textMessage, userMessage } from '../events/event-drafts.ts'
import type { AgentRuntime } from '../runtime/agent-runtime.ts'
import type { ConversationState } from '../state/state.ts'

/** Under which the questions to the judge are counted. */
export const judgeUsage = 'goal-judge'

const maxMissing = 4_000

/** A pursuit that begins; it is counted as the first round. */
export function newGoal(objective: string, max_iterations: number): GoalState {
  return { active: true, status: 'running', iteration: 1, max_iterations, objective, verdict: null }
}

export function goalUpdateEvent(goal: GoalState): EventDraft {
  return stateUpdate('goal', goal)
}

/** What ends a pursuit before its time; nothing where there is none. */
export function endGoalEvents({ goal }: ConversationState): EventDraft[] {
  return goal?.active ? [goalUpdateEvent({ ...goal, active: false, status: 'interrupted' })] : []
}

/** What a goal comes to after a round: the agent is told what is missing, or the pursuit is over. */
export function goalRoundEvents(goal: GoalState, verdict: GoalVerdict): readonly EventDraft[] {
  if (verdict.complete) return [goalUpdateEvent({ ...goal, active: false, status: 'complete', verdict })]
  if (goal.iteration >= goal.max_iterations)
    return [goalUpdateEvent({ ...goal, active: false, status: 'capped', verdict })]
  const missing = verdict.missing === '' ? 'Check the result against the goal.' : verdict.missing
  return [
    goalUpdateEvent({ ...goal, iteration: goal.iteration + 1, verdict }),
    userMessage('user', `The goal is not reached yet. What is missing:\n\n${missing}\n\nGo on until it is.`),
  ]
}

/** What the agent is told when a pursuit goes on and nothing else waits for it. */
export function goalReminder({ objective }: GoalState): EventDraft {
  return userMessage('user', `Go on until this goal is reached:\n\n${objective}`)
}

/** One question to the model whether the goal is reached. Without an answer in the form asked for it is not. */
export async function judgeGoal(
  {
    state,
    equipment: runtime,
    goal,
  }: { readonly state: ConversationState; readonly equipment: AgentRuntime; readonly goal: GoalState },
  signal: AbortSignal,
): Promise<{ readonly verdict: GoalVerdict; readonly answer: ModelReply } | undefined> {
  const { model, modelTools } = runtime
  const answer = await model.generate(
    {
      messages: [...state.view.messages(model.llm.max_message_chars), textMessage('user', judgePrompt(goal))],
      tools: modelTools,
      toolChoice: 'none',
    },
    signal,
  )
  if (answer.kind !== 'answer') return undefined
  const text = answer.message.content.map((part) => (part.type === 'text' ? part.text : '')).join('')
  return { verdict: parseVerdict(text), answer }
}

function judgePrompt({ objective }: GoalState): string {
  return `You are now the judge of this conversation. Has the goal below been reached? Trust only what the results of tools show, not what was claimed. Answer with one JSON object and nothing else: {"score": a number from 0 to 1, "complete": true or false, "missing": "what is still missing, empty when nothing is"}.\n\nThe goal:\n\n${objective}`
}

/** Models round a score, leave a member out or say in a list what is missing. */
function parseVerdict(text: string): GoalVerdict {
  const parsed = parseJsonObject(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1))
  const complete = parsed.complete === true
  const score = typeof parsed.score === 'number' ? Math.max(0, Math.min(1, parsed.score)) : complete ? 1 : 0
  const list = Array.isArray(parsed.missing) ? parsed.missing : [parsed.missing]
  const missing = list.filter((item) => typeof item === 'string').join('\n')
  return goalVerdict.parse({ score, complete, missing: missing.trim().slice(0, maxMissing) })
}

function parseJsonObject(json: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}
