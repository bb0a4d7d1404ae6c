import { setTimeout as sleep } from 'node:timers/promises'
import type { SandboxServerClient, SandboxServerInput } from '@slipway/client'
import type { AppConversationStartTask } from '@slipway/protocol'
import { must, Problem } from '@slipway/protocol/client'
import { splitJsonArray } from '../parsing/json-array-splitter.ts'

export type StartRequest = NonNullable<SandboxServerInput<'streamStartAppConversation'>['body']>

const pollMs = 500

/**
 * Starts a conversation in a sandbox and yields its start task after each change, until READY or ERROR. A
 * broken connection does not stop the start; then the task is polled.
 */
export async function* followStartTask(
  client: SandboxServerClient,
  body: StartRequest,
  signal: AbortSignal,
): AsyncGenerator<AppConversationStartTask> {
  const response = await client.open('streamStartAppConversation', { body, signal })
  let task: AppConversationStartTask | undefined
  try {
    for await (const text of splitJsonArray(must(response.body, 'the body of an answer'))) {
      const next: AppConversationStartTask = JSON.parse(text)
      task = next
      yield next
    }
  } catch (error) {
    // `fetch` throws a TypeError when a body ends early.
    if (signal.aborted || task === undefined || !(error instanceof TypeError)) throw error
  }
  if (task === undefined) throw new Problem('bad_gateway', 'The answer of the server ended before it began.')
  yield* pollStartTask(client, task, signal)
}

/**
 * Copies a conversation with the files of its workspace, and yields its start task as `followStartTask`
 * does.
 */
export async function* followFork(
  client: SandboxServerClient,
  id: string,
  body: NonNullable<SandboxServerInput<'forkAppConversation'>['body']>,
  signal: AbortSignal,
): AsyncGenerator<AppConversationStartTask> {
  const task = await client.call('forkAppConversation', { params: { conversation_id: id }, body, signal })
  yield task
  yield* pollStartTask(client, task, signal)
}

async function* pollStartTask(
  client: SandboxServerClient,
  first: AppConversationStartTask,
  signal: AbortSignal,
): AsyncGenerator<AppConversationStartTask> {
  let last = first
  while (last.status !== 'READY' && last.status !== 'ERROR') {
    await sleep(pollMs, undefined, { signal })
    const [task] = await client.call('getStartTasks', { query: { ids: [last.id] }, signal })
    if (task === null || task === undefined) throw new Problem('not_found', 'The start is gone.')
    if (task.updated_at !== last.updated_at) yield task
    last = task
  }
}
