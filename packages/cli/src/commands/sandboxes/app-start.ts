import { Client, type FollowOptions, follow } from '@slipway/client'
import type { AppConversation, AppConversationStartTask } from '@slipway/protocol'
import { Problem } from '@slipway/protocol/client'
import type { SandboxServerContext } from '../../context/command-context.ts'
import { getAppConversation, remoteEvents } from '../../conversation/remote-events.ts'
import { followFork, followStartTask, type StartRequest } from '../../conversation/start-tasks.ts'
import { asObject } from '../../output/action-text.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { paint, print, printNote } from '../../output/terminal.ts'
import { TranscriptRenderer } from '../../output/transcript.ts'
import { exitCodes } from '../conversations/follow-run.ts'
import { positionedLine } from '../conversations/tail.ts'

/**
 * Starts a conversation in a sandbox, prints its progress and optionally follows it. `onReady` is called when
 * it is started. Returns the exit code.
 */
export async function startAppCommand(
  context: SandboxServerContext,
  request: StartRequest,
  options: { readonly isFollowing: boolean; readonly onReady?: () => void },
): Promise<number> {
  const { client, signal } = context
  return await followTasks(context, followStartTask(client, request, signal), options)
}

/** Copies a conversation with the files of its workspace into a new sandbox. Returns the exit code. */
export async function forkAppCommand(
  context: SandboxServerContext,
  id: string,
  { title }: { readonly title?: string | undefined },
): Promise<number> {
  const { client, signal } = context
  return await followTasks(context, followFork(client, id, { title }, signal), { isFollowing: false })
}

async function followTasks(
  context: SandboxServerContext,
  tasks: AsyncIterable<AppConversationStartTask>,
  options: { readonly isFollowing: boolean; readonly onReady?: () => void },
): Promise<number> {
  const { isJson } = context
  const startedAt = Date.now()
  let lastTask: AppConversationStartTask | undefined
  for await (const task of tasks) {
    lastTask = task
    await print(isJson ? `${JSON.stringify(task)}\n` : taskLine(Date.now() - startedAt, task))
    if (!isJson && /^Waits for /.test(task.detail ?? '')) printNote(sanitizeLine(task.detail ?? ''))
  }
  if (lastTask?.detail) printNote(sanitizeLine(lastTask.detail))
  const id = lastTask?.app_conversation_id
  if (lastTask?.status !== 'READY' || id === null || id === undefined) return exitCodes.failed
  options.onReady?.()
  if (!isJson) printNote(`Conversation ${id} in sandbox ${sanitizeLine(lastTask.sandbox_id ?? '')}`)
  if (options.isFollowing) return await followAppConversation(context, id, { after: 0 })
  if (!isJson) printNote(`Follow it with: slipway app tail ${id}`)
  return exitCodes.finished
}

/** The line of a start's state; the sandbox is named once, by the state that waits for it. */
export function taskLine(
  afterMs: number,
  { status, sandbox_id }: Pick<AppConversationStartTask, 'status' | 'sandbox_id'>,
): string {
  const where = status === 'WAITING_FOR_SANDBOX' && sandbox_id !== null ? `sandbox ${sandbox_id}` : ''
  return statusLine(afterMs, status, where)
}

/** `  2.1 s  READY`. */
export function statusLine(afterMs: number, status: string, details = ''): string {
  const time = `${(afterMs / 1000).toFixed(1)} s`.padStart(8)
  return `${`${paint('dim', time)}  ${status}${details === '' ? '' : `  ${paint('dim', sanitizeLine(details))}`}`}\n`
}

/** Sends a message to a conversation whose sandbox runs; optionally follows it. Returns the exit code. */
export async function sendAppCommand(
  context: SandboxServerContext,
  id: string,
  options: { readonly message: string; readonly isFollowing: boolean },
): Promise<number> {
  const { client, isJson, signal } = context
  const params = { conversation_id: id }
  const after = await client.call('countHomeEvents', { params, query: {}, signal })
  await client.call('sendAppMessage', { params, body: { content: options.message }, signal })
  if (options.isFollowing) return await followAppConversation(context, id, { after })
  if (isJson) await print(`${JSON.stringify({ conversation_id: id })}\n`)
  else printNote(`Sent. Follow it with: slipway app tail ${id}`)
  return exitCodes.finished
}

/** Prints the steps of a conversation until nothing runs in it. Ctrl-C ends the output only. */
async function followAppConversation(
  context: SandboxServerContext,
  id: string,
  options: { readonly after: number },
) {
  const { client, isJson, signal } = context
  const conversation = await getAppConversation(client, id, signal)
  const { sandbox_id, conversation_url } = conversation
  const [sandbox] = await client.call('getSandboxes', { query: { id: [sandbox_id] }, signal })
  const directory = sandbox?.working_dir ?? undefined
  const steps = new TranscriptRenderer({ columns: process.stdout.columns || 100, directory })
  const ended = new AbortController()
  // The stored events arrive a little later than what the agent server sends.
  const begun = Promise.withResolvers<void>()
  const printText = (text: string) => void begun.promise.then(() => process.stdout.write(text))
  if (!isJson)
    void printRetries(conversation, steps, {
      ...options,
      signal: AbortSignal.any([signal, ended.signal]),
      printText,
    })
  try {
    for await (const item of remoteEvents(client, id, { signal, ...options, until: 'idle' })) {
      await print(isJson ? positionedLine(item) : steps.renderEvent(item.event))
      if (asObject(item.event).value === 'running') begun.resolve()
    }
  } finally {
    ended.abort()
  }
  if (signal.aborted)
    throw new Problem('bad_request', `The run continues. Follow it with: slipway app tail ${id}`)
  const { execution_status, sandbox_status } = await getAppConversation(client, id, signal)
  if (isJson) await print(`${JSON.stringify({ conversation_id: id, execution_status, sandbox_status })}\n`)
  else printNote(execution_status?.replaceAll('_', ' ') ?? `its sandbox is ${sandbox_status}`)
  if (execution_status === 'finished' || execution_status === 'idle') return exitCodes.finished
  if (execution_status !== 'waiting_for_confirmation') return exitCodes.failed
  const url = conversation_url === null ? '...' : sanitizeLine(conversation_url.replace(/\/api\/.*$/, ''))
  printNote(
    `It waits for confirmation. With session_api_key of "slipway app list --json":\n` +
      `SLIPWAY_URL=${url} SLIPWAY_SESSION_API_KEY=... slipway confirm ${id}`,
  )
  return exitCodes.waiting
}

/**
 * Prints that requests to the model are repeated. The log has no such events: the agent server in the sandbox
 * sends them, to whoever may use it. Never rejects.
 */
async function printRetries(
  { id, conversation_url, session_api_key }: AppConversation,
  steps: TranscriptRenderer,
  options: {
    readonly after: number
    readonly signal: AbortSignal
    readonly printText: (text: string) => void
  },
): Promise<void> {
  if (conversation_url === null || session_api_key === null) return
  const url = conversation_url.replace(/\/api\/.*$/, '')
  const agent = new Client({ url, sessionApiKey: session_api_key })
  const onTransientUpdate: FollowOptions['onTransientUpdate'] = (update) => {
    const isRetry = update.kind === 'ConversationStateUpdateEvent' && update.key === 'model_retry'
    if (isRetry) options.printText(steps.renderUpdate(update))
  }
  try {
    for await (const _ of follow(agent, id, { ...options, onResync: () => undefined, onTransientUpdate }));
  } catch {
    // The events are printed all the same.
  }
}
