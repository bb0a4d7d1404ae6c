import type { Handlers } from '@slipway/http'
import { bashId, type bashRoutes, invalidInput, Problem } from '@slipway/protocol'
import type { BashScope, BashService } from './bash-service.ts'
import { toJsonArray } from './event-store.ts'

/** The commands of the workspace of a conversation; `scope` undefined: those outside of conversations. */
export function bashHandlers(options: {
  readonly bash: BashService
  readonly scope?: BashScope
}): Handlers<typeof bashRoutes> {
  const { bash, scope } = options
  const { events } = bash
  const conversationId = scope?.conversationId ?? null
  return {
    startBashCommand: async ({ body }) => ({ bytes: await bash.start(body, scope) }),
    async executeBashCommand({ body, signal }) {
      const output = await bash.execute(body, signal, scope)
      return { json: output }
    },
    async searchBashEvents({ query }) {
      // Who polls one command wants its output, whose first event must be an output.
      const kind__eq = query.kind__eq ?? (query.command_id__eq === undefined ? undefined : 'BashOutput')
      return { bytes: await events.search({ ...query, kind__eq }, conversationId) }
    },
    async stopBashCommand({ params: { command_id } }) {
      if (await bash.stop(command_id, conversationId)) return { json: { success: true } }
      throw new Problem('not_found', `Bash command not found: ${command_id}`)
    },
    async getBashEvents({ query, body }) {
      const ids = [...(body ?? []), ...(query.ids ?? [])]
      if (ids.length === 0) throw invalidInput(['query', 'ids'], 'Field required', 'missing')
      if (ids.length > 100)
        throw invalidInput(['query', 'ids'], 'At most 100 ids are asked for at a time', 'too_long')
      // A malformed id matches nothing.
      const known = ids.map((id) => bashId.safeParse(id).data ?? '')
      return { bytes: toJsonArray(await events.get(known, conversationId)) }
    },
    clearBashEvents: async () => ({ json: { cleared_count: await events.clear(conversationId) } }),
    async getBashEvent({ params }) {
      const [line] = await events.get([bashId.safeParse(params.event_id).data ?? ''], conversationId)
      if (line === undefined) throw new Problem('not_found', `Bash event not found: ${params.event_id}`)
      return { bytes: line }
    },
  }
}
