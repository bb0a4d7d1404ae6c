import { isAcpAgent } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { recordEvents, statusUpdate, userMessage } from '../events/event-drafts.ts'
import type { ConversationState } from '../state/state.ts'
import { endGoalEvents, goalRoundEvents } from './goal.ts'
import { judgeGoal, judgeUsageId } from './goal-judge.ts'
import { announcedAction } from './reminders.ts'
import type { StepScope } from './run-progress.ts'

/** Ends a run in which nothing waits any more, unless a critic, a stop hook or a goal continues it. */
export async function conclude(scope: StepScope, signal: AbortSignal): Promise<void> {
  const { context } = scope
  const { state } = context
  if (state.hasMessage && state.blockedMessages.size === 0) {
    const followUp = await followUpEvents(scope, signal)
    if (signal.aborted) return
    if (followUp.length > 0) {
      await context.appendPatiently((now) => (isRunComplete(now) ? followUp : []))
      return
    }
    if (state.goal?.active) return await judgeRound(scope, signal)
  }
  await context.appendPatiently((now) =>
    isRunComplete(now) ? [statusUpdate(now.hasMessage ? 'finished' : 'idle')] : [],
  )
}

/** The message of a reminder, a critic or a stop hook with which the agent continues. */
async function followUpEvents(scope: StepScope, signal: AbortSignal): Promise<readonly EventDraft[]> {
  const { context, runtime, progress } = scope
  const hasStep = progress.steps < context.settings.current.max_iterations
  const canCall = hasStep && !isAcpAgent(runtime.settings.agent) && runtime.modelTools.length > 0
  const announced = canCall ? announcedAction(context.state.view.events) : undefined
  if (announced !== undefined) return [userMessage('environment', announced)]
  const refinement = refinementMessage(scope)
  if (refinement !== undefined) return [refinement]
  const verdict = await scope.runtime.hooks.run('stop', {}, signal)
  if (verdict.isBlocked) {
    const text = `[Stop hook feedback] ${verdict.reason ?? 'Continue with the task.'}`
    return [...verdict.events, userMessage('environment', text)]
  }
  await scope.context.appendPatiently(() => verdict.events)
  return []
}

function refinementMessage({ context, runtime, progress }: StepScope): EventDraft | undefined {
  const refinement = runtime.settings.agent.critic?.iterative_refinement
  const last = context.state.view.events.findLast(
    ({ kind, source }) => kind === 'ActionEvent' || (kind === 'MessageEvent' && source === 'agent'),
  )
  if (refinement === undefined || last === undefined || !('critic_result' in last)) return undefined
  const score = last.critic_result?.score
  if (score === undefined || score >= refinement.success_threshold) return undefined
  if (progress.refinements >= refinement.max_iterations) return undefined
  progress.refinements++
  const reason = last.critic_result?.message
  const text = `A review of the result gave ${Math.round(score * 100)} of 100 points. Check what is missing or wrong and complete the task.`
  return userMessage('user', reason === null || reason === undefined ? text : `${text}\n\n${reason}`)
}

/** Ends a round of the goal: a model judges whether the goal is reached. */
async function judgeRound({ context, runtime, progress }: StepScope, signal: AbortSignal): Promise<void> {
  const { state, stats, deps } = context
  const { goal } = state
  if (goal === undefined) return
  const judged = await judgeGoal(goal, { state, runtime }, signal)
  if (judged !== undefined) stats.addReply(judged.reply, judgeUsageId, deps.clock.now() * 1000)
  else if (signal.aborted) return
  const records =
    judged === undefined ? [] : [...recordEvents(judged.reply, judgeUsageId), ...context.usageEvents()]
  await context.appendWithUsage((now) => {
    if (signal.aborted || !isRunComplete(now) || !now.goal?.active) return records
    const round = judged === undefined ? endGoalEvents(now) : goalRoundEvents(now.goal, judged.verdict)
    const hasNextRound = round.length > 1
    return [...records, ...round, ...(hasNextRound ? [] : [statusUpdate('finished')])]
  })
  context.publishUsage()
  // Each round has the steps of a whole run.
  progress.steps = 0
}

function isRunComplete(now: ConversationState): boolean {
  return !now.isAwaiting && now.openActions().length === 0 && now.status === 'running'
}
