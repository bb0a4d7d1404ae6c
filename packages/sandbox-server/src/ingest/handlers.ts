import type { Handlers } from '@slipway/http'
import { invalidInput, type sandboxServerRoutes } from '@slipway/protocol'
import { getCallingSandbox } from '../auth/authenticator.ts'
import type { PendingMessages } from '../conversations/pending-messages.ts'
import type { EventIngest } from './event-ingest.ts'
import type { EventPull } from './event-pull.ts'

const success = { json: { success: true } }

export function webhookHandlers(deps: {
  readonly ingest: EventIngest
  readonly pendingMessages: Pick<PendingMessages, 'deliver'>
  readonly eventPull?: Pick<EventPull, 'noteWebhook'>
}) {
  const { ingest, pendingMessages, eventPull } = deps
  return {
    async receiveConversation(request) {
      const { body } = request
      const sandbox = getCallingSandbox(request)
      eventPull?.noteWebhook(sandbox.id)
      await ingest.receiveConversation(sandbox, body.id, body)
      // It runs, perhaps again after a pause: pending messages can be delivered.
      pendingMessages.deliver(body.id)
      return success
    },
    async receiveEvents(request) {
      const { params, stream } = request
      const after = parsePosition(request.header('x-slipway-after'))
      const sandbox = getCallingSandbox(request)
      eventPull?.noteWebhook(sandbox.id)
      const isCompressed = (request.header('content-encoding') ?? 'identity') !== 'identity'
      const length = Number(request.header('content-length') ?? 0)
      const body = { stream, isCompressed, length, after }
      const head = await ingest.receiveEvents(sandbox, params.conversation_id, body)
      if (head === undefined) return success
      const detail = `Earlier events are missing: the log ends at position ${head}`
      return { status: 409, json: { detail, head } }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

function parsePosition(header: string | undefined): number | undefined {
  if (header === undefined || header === '') return undefined
  if (/^\d{1,15}$/.test(header)) return Number(header)
  throw invalidInput(['header', 'x-slipway-after'], 'Input should be a position', 'int_parsing')
}
