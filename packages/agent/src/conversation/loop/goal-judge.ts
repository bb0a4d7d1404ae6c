import { type GoalState, type GoalVerdict, goalVerdict } from '@slipway/protocol'
import { parseJsonObject } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import type { ModelReply } from '../../llm/model.ts'
import { textMessage } from '../events/event-drafts.ts'
import type { AgentRuntime } from '../runtime/agent-runtime.ts'
import type { ConversationState } from '../state/state.ts'
import { replyText } from '../view/content-blocks.ts'
import { messageLimits } from '../view/message-limits.ts'

/** Usage id of the questions to the judge. */
export const judgeUsageId = 'goal-judge'

const maxMissing = 4_000

/** Asks the model whether the goal is reached; a reply in another form than requested counts as no. */
export async function judgeGoal(
  goal: GoalState,
  { state, runtime }: { readonly state: ConversationState; readonly runtime: AgentRuntime },
  signal: AbortSignal,
): Promise<{ readonly verdict: GoalVerdict; readonly reply: ModelReply } | undefined> {
  const { model, modelTools } = runtime
  const result = await model.generate(
    {
      messages: [...state.view.messages(messageLimits(model)), textMessage('user', judgePrompt(goal))],
      tools: modelTools,
      toolChoice: 'none',
    },
    signal,
  )
  return result.kind === 'reply' ? { verdict: parseVerdict(replyText(result)), reply: result } : undefined
}

function judgePrompt({ objective }: GoalState): string {
  return `You are now the judge of this conversation. Has the goal below been reached? Trust only what the results of tools show, not what was claimed. Answer with one JSON object and nothing else: {"score": a number from 0 to 1, "complete": true or false, "missing": "what is still missing, empty when nothing is"}.\n\nThe goal:\n\n${objective}`
}

/** Models leave out members, exceed the range of the score, or list what is missing. */
function parseVerdict(text: string): GoalVerdict {
  const parsed = parseJsonObject(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1)) ?? {}
  const complete = parsed.complete === true
  const score = typeof parsed.score === 'number' ? Math.max(0, Math.min(1, parsed.score)) : complete ? 1 : 0
  const list = Array.isArray(parsed.missing) ? parsed.missing : [parsed.missing]
  const missing = list.filter((item) => typeof item === 'string').join('\n')
  return goalVerdict.parse({ score, complete, missing: firstChars(missing.trim(), maxMissing) })
}
