import { setTimeout as sleep } from 'node:timers/promises'
import type { ControlClient, ControlInput } from '@slipway/client'
import { type AppConversationStartTask, must, Problem } from '@slipway/protocol'
import { arrayItems } from '../parsing/json-array-splitter.ts'

export type StartRequest = NonNullable<ControlInput<'streamStartAppConversation'>['body']>

const pollMs = 500

/**
 * Starts a conversation in a sandbox: its start task, each time that it changes, until it is READY or ERROR. A connection that
 * breaks on the way does not stop the start: then the task is asked for until it is over.
 */
export async function* startTasks(
  client: ControlClient,
  body: StartRequest,
  signal: AbortSignal,
): AsyncGenerator<AppConversationStartTask> {
  const response = await client.open('streamStartAppConversation', { body, signal })
  let task: AppConversationStartTask | undefined
  try {
    for await (const text of arrayItems(must(response.body, 'the body of an answer'))) {
      const next: AppConversationStartTask = JSON.parse(text)
      task = next
      yield next
    }
  } catch (error) {
    if (signal.aborted || task === undefined || !isCut(error)) throw error
  }
  if (task === undefined) throw new Problem('bad_gateway', 'The answer of the server ended before it began.')
  yield* asked(client, task, signal)
}

/** What `fetch` throws when a body ends before its time. */
function isCut(error: unknown): boolean {
  return error instanceof TypeError
}

async function* asked(
  client: ControlClient,
  before: AppConversationStartTask,
  signal: AbortSignal,
): AsyncGenerator<AppConversationStartTask> {
  let last = before
  while (!isOver(last)) {
    await sleep(pollMs, undefined, { signal })
    const [task] = await client.call('getStartTasks', { query: { ids: [last.id] }, signal })
    if (task === null || task === undefined) throw new Problem('not_found', 'The start is gone.')
    if (task.updated_at !== last.updated_at) yield task
    last = task
  }
}

function isOver({ status }: AppConversationStartTask): boolean {
  return status === 'READY' || status === 'ERROR'
}
