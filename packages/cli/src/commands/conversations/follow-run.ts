import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, follow, type PositionedEvent, type TransientUpdate } from '@slipway/client'
import type { ConversationInfo, ExecutionStatus } from '@slipway/protocol'
import { Problem } from '@slipway/protocol/client'
import type { CommandContext } from '../../context/command-context.ts'
import {
  type ConfirmationAnswer,
  isInteractive,
  promptForConfirmation,
} from '../../conversation/confirmation-prompt.ts'
import { waitForForeignAnswer } from '../../conversation/foreign-answer.ts'
import {
  answerActions,
  answeredElsewhere,
  formatPendingAction,
  type PendingAction,
  questionText,
  readPendingQuestion,
} from '../../conversation/pending-actions.ts'
import { asObject, asString } from '../../output/action-text.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote } from '../../output/terminal.ts'
import { TranscriptRenderer } from '../../output/transcript.ts'
import { costText, tokensText } from '../../output/usage.ts'
import { connectionNotes, noteResync, positionedLine } from './tail.ts'

/** Exit codes of commands that follow a run. */
export const exitCodes = { finished: 0, failed: 1, waiting: 3 } as const

const interruptMs = 10_000
/** After a rejection elsewhere: its reason continues the run with a second request. */
const continuationMs = 500

/**
 * Prints a run from a position on until it ends, and answers confirmations: yes with `isYes`, else by asking
 * at the terminal. Ctrl-C interrupts the run on the server. Returns the exit code.
 */
export async function followRun(
  context: CommandContext,
  id: string,
  options: { readonly after: number; readonly isYes: boolean },
): Promise<number> {
  const { client, signal } = context
  const params = { conversation_id: id }
  let cursor: string | number = options.after
  let error = ''
  let refusedIds = ''
  for (;;) {
    for await (const item of printRun(context, id, { after: cursor })) {
      cursor = item.cursor
      const { kind, code } = asObject(item.event)
      if (kind === 'ConversationErrorEvent') error = asString(code)
    }
    if (signal.aborted) return await interruptRun(context, id)
    const info = await client.call('getConversation', { params, signal })
    if (info.execution_status === 'running') continue
    if (info.execution_status !== 'waiting_for_confirmation') return await reportEnd(context, info, error)
    const { actions, digest } = await readPendingQuestion(client, id, signal)
    if (actions.length === 0) {
      const now = await client.call('getConversation', { params, signal })
      if (now.execution_status !== 'waiting_for_confirmation') continue
      const directory = sanitizeLine(info.workspace.working_dir)
      printNote(`The repository brings hooks or agents. Show and decide with: slipway trust ${directory}`)
      return await reportStatus(context, info, exitCodes.waiting)
    }
    const watch = { client, id, after: cursor, signal }
    const answer = await answerConfirmation(actions, watch, options.isYes)
    if (answer === undefined) return await reportStatus(context, info, exitCodes.waiting)
    const actionIds = actions.map((action) => action.id)
    if (answer === 'elsewhere') await sleep(continuationMs, undefined, { signal }).catch(() => undefined)
    else {
      const reason = answer.accept ? undefined : answer.reason
      const rest = { actionIds, digest, isContinued: reason !== undefined }
      if (await answerActions(client, id, { accept: answer.accept, reason, ...rest }, signal)) {
        if (options.isYes) printNote(`Accepted: ${formatActions(actions)}`)
      } else {
        printNote(answeredElsewhere)
        // Asking again would be refused again.
        if (refusedIds === actionIds.join())
          throw new Problem('conflict', 'The server has other actions that wait than its log shows.')
        refusedIds = actionIds.join()
      }
    }
  }
}

/**
 * Prints and yields the events of a run until nothing runs, and prints transient updates. Paths below
 * `directory` are shown relative to it.
 */
export async function* printRun(
  { client, isJson, signal }: CommandContext,
  id: string,
  options: {
    readonly after: string | number
    readonly directory?: string
    readonly onTransientUpdate?: (update: TransientUpdate) => void
  },
): AsyncGenerator<PositionedEvent> {
  const { after, directory = process.cwd() } = options
  const steps = new TranscriptRenderer({ columns: process.stdout.columns || 100, directory })
  const onTransientUpdate = (update: TransientUpdate) => {
    options.onTransientUpdate?.(update)
    process.stdout.write(steps.renderUpdate(update))
  }
  const listener = isJson ? {} : { onTransientUpdate }
  const handlers = { onResync: noteResync, ...connectionNotes(), ...listener }
  for await (const item of follow(client, id, { after, signal, until: 'idle', ...handlers })) {
    await print(isJson ? positionedLine(item) : steps.renderEvent(item.event))
    yield item
  }
}

interface AnswerWatch {
  readonly client: Client
  readonly id: string
  /** The position of the last event that was printed. */
  readonly after: string | number
  readonly signal: AbortSignal
}

/** `elsewhere`: another client has answered while the question was open. */
async function answerConfirmation(
  actions: readonly PendingAction[],
  watch: AnswerWatch,
  isYes: boolean,
): Promise<ConfirmationAnswer | 'elsewhere'> {
  if (isYes) return { accept: true }
  if (isInteractive()) return await promptWhilePending(actions, watch)
  printNote(`Pending confirmation:\n${questionText(actions)}`)
  return undefined
}

/** Asks at the terminal; the question closes on its own when another client answers. */
async function promptWhilePending(
  actions: readonly PendingAction[],
  { client, id, after, signal }: AnswerWatch,
): Promise<ConfirmationAnswer | 'elsewhere'> {
  const closing = new AbortController()
  const closed = AbortSignal.any([signal, closing.signal])
  let answer: string | undefined
  const watching = waitForForeignAnswer(client, id, { after, signal: closed }).then(
    (text) => {
      answer = text
      closing.abort()
    },
    // The server says what is wrong when it gets the answer.
    () => undefined,
  )
  const own = await promptForConfirmation(actions, closed)
  if (answer !== undefined) {
    printNote(answer)
    return 'elsewhere'
  }
  closing.abort()
  await watching
  return own
}

function formatActions(actions: readonly PendingAction[]): string {
  return actions.map(formatPendingAction).join('; ')
}

async function interruptRun(context: CommandContext, id: string): Promise<number> {
  const signal = AbortSignal.timeout(interruptMs)
  const params = { conversation_id: id }
  await context.client.call('interruptConversation', { params, signal })
  const info = await context.client.call('getConversation', { params, signal })
  return await reportStatus(context, info, exitCodes.failed)
}

async function reportEnd(context: CommandContext, info: ConversationInfo, error: string): Promise<number> {
  if (info.execution_status === 'finished') return await reportStatus(context, info, exitCodes.finished)
  const adviceText = errorAdvice.get(error)
  if (adviceText !== undefined && info.execution_status === 'error') printNote(adviceText)
  return await reportStatus(context, info, exitCodes.failed)
}

/** Prints the status and the next command. */
async function reportStatus(
  { isJson }: CommandContext,
  info: ConversationInfo,
  code: number,
): Promise<number> {
  const { id, execution_status } = info
  if (isJson) await print(`${JSON.stringify({ conversation_id: id, execution_status })}\n`)
  else printNote(usageLine(info))
  const next = nextCommands[execution_status]
  if (next !== undefined) printNote(next(id))
  return code
}

const continueCommand = (id: string) => `Continue with: slipway run --conversation ${id} [MESSAGE]`
const nextCommands: { readonly [S in ExecutionStatus]?: (id: string) => string } = {
  waiting_for_confirmation: (id) =>
    `Answer with: slipway confirm ${id} --follow, or slipway confirm ${id} --reject --reason TEXT --follow`,
  paused: continueCommand,
  idle: continueCommand,
  stuck: (id) => `The agent repeats itself. Tell it what to do instead. ${continueCommand(id)}`,
  error: continueCommand,
}

const errorAdvice: ReadonlyMap<string, string> = new Map([
  ['LLMAuthenticationError', 'Set LLM_API_KEY to the key of the provider.'],
  ['LLMBadRequestError', 'Check the name of the model (--model) and the address (--base-url).'],
  ['LLMServiceUnavailableError', 'Check the address (--base-url), or try again in a moment.'],
  ['LLMRateLimitError', 'Try again in a moment.'],
  ['BudgetExceeded', 'Ask for more: slipway budgets request AMOUNT --reason TEXT'],
  ['MaxCostReached', 'Continue with a higher --max-cost.'],
  ['MaxTokensReached', 'Continue with a higher --max-tokens.'],
  ['MaxTimeReached', 'Continue with a higher --max-time.'],
  ['MaxIterationsReached', 'A conversation may take more steps with --max-iterations when it is started.'],
])

/** Status, and tokens and cost when known. */
export function usageLine({ execution_status, metrics }: ConversationInfo): string {
  const words = [sanitizeLine(execution_status.replaceAll('_', ' '))]
  const [tokens, cost] = [tokensText(metrics), costText(metrics)]
  if (tokens !== undefined) words.push(tokens)
  if (cost !== undefined) words.push(cost.startsWith('$') ? cost : `cost ${cost}`)
  return words.join(' · ')
}
