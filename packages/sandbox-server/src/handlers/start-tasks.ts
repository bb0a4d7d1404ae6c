import type { Handlers } from '@slipway/http'
import type { appConversationRoutes } from '@slipway/protocol'
import type { StartTaskRows } from '@slipway/storage'
import { callerOf } from '../auth/authenticator.ts'
import type { Starts } from '../start/conversation-starter.ts'
import { type Progress, startTask } from '../start/progress.ts'

type Routes = Pick<
  typeof appConversationRoutes,
  | 'startAppConversation'
  | 'streamStartAppConversation'
  | 'searchStartTasks'
  | 'countStartTasks'
  | 'getStartTasks'
>

export function startTaskHandlers(parts: {
  readonly starts: Starts
  readonly startTasks: StartTaskRows
}): Handlers<Routes> {
  const { starts, startTasks } = parts
  return {
    async startAppConversation(request) {
      const { caller, body } = { caller: callerOf(request), body: request.body }
      for await (const row of (await starts.start(caller, body)).changes()) return { json: startTask(row) }
      throw new Error('a start without a task')
    },
    async streamStartAppConversation(request) {
      const progress = await starts.start(callerOf(request), request.body)
      return { contentType: 'application/json', chunks: taskStream(progress) }
    },
    async searchStartTasks(request) {
      const { items, next_page_id } = await startTasks.search(ownerOf(request), request.query)
      return { json: { items: items.map(startTask), next_page_id } }
    },
    async countStartTasks(request) {
      return { json: await startTasks.count(ownerOf(request), request.query) }
    },
    async getStartTasks(request) {
      const { owner } = callerOf(request)
      const rows = await startTasks.get(request.query.ids)
      return { json: rows.map((row) => (row?.owner === owner ? startTask(row) : null)) }
    },
  }
}

/**
 * One JSON array with an element for each change. Whoever leaves early does not stop the start, and the slot of the quota is
 * kept: what was asked for goes on, as it does after a plain start.
 */
async function* taskStream(progress: Progress): AsyncGenerator<string> {
  let before = '[\n'
  for await (const row of progress.changes()) {
    yield before + JSON.stringify(startTask(row))
    before = ',\n'
  }
  yield '\n]\n'
}

function ownerOf(request: { readonly caller: unknown }): { readonly owner: string | null } {
  return { owner: callerOf(request).owner }
}
