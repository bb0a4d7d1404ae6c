import type { Handlers } from '@slipway/http'
import { type homeRoutes, invalid } from '@slipway/protocol'
import { sandboxOf } from '../auth/authenticator.ts'
import type { Pending } from '../conversations/pending-messages.ts'
import type { Home } from '../ingest/event-ingest.ts'

type Routes = Pick<typeof homeRoutes, 'receiveConversation' | 'receiveEvents'>

const success = { json: { success: true } }

/** What sandboxes send home with their session keys. */
export function webhookHandlers(parts: {
  readonly home: Home
  readonly pending: Pick<Pending, 'deliver'>
}): Handlers<Routes> {
  const { home, pending } = parts
  return {
    async receiveConversation(request) {
      const { body } = request
      await home.receiveConversation(sandboxOf(request), body.id, body)
      // It runs again, perhaps after a pause: what waits for it can be delivered.
      pending.deliver(body.id)
      return success
    },
    async receiveEvents(request) {
      const { params, stream } = request
      const after = position(request.header('x-slipway-after'))
      const taken = await home.receiveEvents(sandboxOf(request), params.conversation_id, { stream, after })
      if (taken.kind === 'stored') return success
      const detail = `The events before these are missing here: the log ends at position ${taken.head}`
      return { status: 409, json: { detail, head: taken.head } }
    },
  }
}

function position(header: string | undefined): number | undefined {
  if (header === undefined || header === '') return undefined
  if (/^\d{1,15}$/.test(header)) return Number(header)
  throw invalid(['header', 'x-slipway-after'], 'Input should be a position', 'int_parsing')
}
