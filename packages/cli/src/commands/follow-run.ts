import { follow, type Hint, type PositionedEvent } from '@slipway/client'
import type { ConversationInfo, ExecutionStatus } from '@slipway/protocol'
import type { Context } from '../context/command-context.ts'
import { askUser, canAsk, type Verdict } from '../conversation/confirmation-prompt.ts'
import { inOneLine, type WaitingAction, waitingActions } from '../conversation/pending-actions.ts'
import { membersOf, textOf } from '../output/action-text.ts'
import { visible } from '../output/sanitize.ts'
import { note, print } from '../output/terminal.ts'
import { Steps } from '../output/transcript.ts'
import { positionedLine } from './tail.ts'

/** Exit codes of what runs: finished, ended otherwise, waiting for an answer. */
export const exitCodes = { finished: 0, failed: 1, waiting: 3 } as const

const interruptMs = 10_000

/**
 * Follows a run from a position on until it is at rest, printing its steps, and answers what waits for confirmation: yes with
 * `isYes`, otherwise whoever sits at the terminal. Ctrl-C interrupts the run on the server. Answers the exit code.
 */
export async function followRun(
  context: Context,
  id: string,
  options: { readonly after: number; readonly isYes: boolean },
): Promise<number> {
  const { client, signal } = context
  const params = { conversation_id: id }
  let position = options.after
  let error = ''
  for (;;) {
    for await (const item of printedRun(context, id, { after: position })) {
      position = item.position
      const { kind, code } = membersOf(item.event)
      if (kind === 'ConversationErrorEvent') error = textOf(code)
    }
    if (signal.aborted) return await interrupted(context, id)
    const info = await client.call('getConversation', { params, signal })
    if (info.execution_status === 'running') continue
    if (info.execution_status !== 'waiting_for_confirmation') return await ended(context, info, error)
    const verdict = await answered(context, id, options.isYes)
    if (verdict === undefined) return await told(context, info, exitCodes.waiting)
    const { accept } = verdict
    const reason = accept ? {} : { reason: verdict.reason }
    await client.call('respondToConfirmation', { params, body: { accept, ...reason }, signal })
    // A refusal alone leaves the agent at rest; with a reason it goes on and finds another way.
    if (!accept && verdict.reason !== undefined) await client.call('runConversation', { params, signal })
  }
}

/**
 * Prints the events of a run as they come, pieces of answers included, and gives each on. It ends when nothing runs any more.
 * `directory`: files below it are shown with the rest of their path; `onHint` hears of what came besides.
 */
export async function* printedRun(
  { client, isJson, signal }: Context,
  id: string,
  options: { readonly after: number; readonly directory?: string; readonly onHint?: (hint: Hint) => void },
): AsyncGenerator<PositionedEvent> {
  const { after, directory = process.cwd() } = options
  const steps = new Steps({ columns: process.stdout.columns || 100, directory })
  const onHint = (hint: Hint) => {
    options.onHint?.(hint)
    process.stdout.write(steps.hint(hint))
  }
  const hints = isJson ? {} : { onHint }
  for await (const item of follow(client, id, { after, signal, until: 'idle', ...hints })) {
    await print(isJson ? positionedLine(item) : steps.event(item.event))
    yield item
  }
}

async function answered({ client, signal }: Context, id: string, isYes: boolean): Promise<Verdict> {
  const actions = await waitingActions(client, id, signal)
  if (isYes) {
    note(`Accepted: ${list(actions)}`)
    return { accept: true }
  }
  if (canAsk()) return await askUser(actions, signal)
  note(`These wait for an answer: ${list(actions)}`)
  return undefined
}

function list(actions: readonly WaitingAction[]): string {
  return actions.map(inOneLine).join('; ')
}

async function interrupted(context: Context, id: string): Promise<number> {
  const signal = AbortSignal.timeout(interruptMs)
  const params = { conversation_id: id }
  await context.client.call('interruptConversation', { params, signal })
  const info = await context.client.call('getConversation', { params, signal })
  return await told(context, info, exitCodes.failed)
}

async function ended(context: Context, info: ConversationInfo, error: string): Promise<number> {
  if (info.execution_status === 'finished') return await told(context, info, exitCodes.finished)
  const words = advice.get(error)
  if (words !== undefined && info.execution_status === 'error') note(words)
  return await told(context, info, exitCodes.failed)
}

/** Says how it stands and how to go on. */
async function told({ isJson }: Context, info: ConversationInfo, code: number): Promise<number> {
  const { id, execution_status } = info
  if (isJson) await print(`${JSON.stringify({ conversation_id: id, execution_status })}\n`)
  else note(usageLine(info))
  const next = hints[execution_status]
  if (next !== undefined) note(next(id))
  return code
}

const goOn = (id: string) => `Go on with: slipway run --conversation ${id} [MESSAGE]`
const hints: { readonly [S in ExecutionStatus]?: (id: string) => string } = {
  waiting_for_confirmation: (id) =>
    `Answer with: slipway confirm ${id} --follow, or slipway confirm ${id} --reject --reason TEXT`,
  paused: goOn,
  idle: goOn,
  stuck: (id) => `The agent repeats itself. Tell it what to do instead. ${goOn(id)}`,
  error: goOn,
}

const advice: ReadonlyMap<string, string> = new Map([
  ['LLMAuthenticationError', 'Set LLM_API_KEY to the key of the provider.'],
  ['LLMBadRequestError', 'Check the name of the model (--model) and the address (--base-url).'],
  ['LLMServiceUnavailableError', 'Check the address (--base-url), or try again in a moment.'],
  ['LLMRateLimitError', 'Try again in a moment.'],
  ['MaxIterationsReached', 'A conversation may take more steps with --max-iterations when it is started.'],
])

/** Status, tokens and dollars of a conversation, as far as they are known. */
export function usageLine({ execution_status, metrics }: ConversationInfo): string {
  const { accumulated_cost, accumulated_token_usage } = membersOf(metrics)
  const { prompt_tokens, completion_tokens } = membersOf(accumulated_token_usage)
  const words = [visible(execution_status.replaceAll('_', ' '))]
  if (typeof prompt_tokens === 'number') words.push(`${prompt_tokens} tokens in, ${completion_tokens} out`)
  if (typeof accumulated_cost === 'number') words.push(`$${accumulated_cost.toFixed(4)}`)
  return words.join(' · ')
}
