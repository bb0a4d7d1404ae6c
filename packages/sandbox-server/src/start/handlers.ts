import type { Handlers } from '@slipway/http'
import type { sandboxServerRoutes } from '@slipway/protocol'
import { ownedBy, type StartTaskRows } from '@slipway/storage/control-plane'
import { getCaller } from '../auth/authenticator.ts'
import type { Conversations } from '../conversations/conversations.ts'
import { ownedGetter } from '../conversations/read-owned.ts'
import type { ConversationStarter } from './conversation-starter.ts'
import { type StartStates, toStartTask } from './progress.ts'

export function startTaskHandlers(deps: {
  readonly starter: ConversationStarter
  readonly startTasks: StartTaskRows
  readonly conversations: Pick<Conversations, 'getOwned'>
}) {
  const { starter, startTasks } = deps
  const getOwned = ownedGetter(deps.conversations)
  return {
    async startAppConversation(request) {
      const progress = await starter.start(getCaller(request), request.body)
      for await (const row of progress.states()) return { json: toStartTask(row) }
      throw new Error('a start without a task')
    },
    async streamStartAppConversation(request) {
      const progress = await starter.start(getCaller(request), request.body)
      return { contentType: 'application/json', chunks: taskStream(progress) }
    },
    async forkAppConversation(request) {
      const progress = await starter.fork(getCaller(request), await getOwned(request), request.body)
      for await (const row of progress.states()) return { json: toStartTask(row) }
      throw new Error('a fork without a task')
    },
    async searchStartTasks(request) {
      const { items, next_page_id } = await startTasks.search(getCaller(request), request.query)
      return { json: { items: items.map(toStartTask), next_page_id } }
    },
    async countStartTasks(request) {
      return { json: await startTasks.count(getCaller(request), request.query) }
    },
    async getStartTasks(request) {
      const { includes } = ownedBy(getCaller(request))
      const rows = await startTasks.get(request.query.ids)
      return { json: rows.map((row) => (includes(row) ? toStartTask(row) : null)) }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

/** A JSON array with an element for each change. A client that disconnects does not stop the start. */
async function* taskStream(progress: StartStates): AsyncGenerator<string> {
  let separator = '[\n'
  for await (const row of progress.states()) {
    yield separator + JSON.stringify(toStartTask(row))
    separator = ',\n'
  }
  yield '\n]\n'
}
