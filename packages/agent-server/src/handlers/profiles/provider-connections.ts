import type { Handlers } from '@slipway/http'
import type { providerConnectionRoutes } from '@slipway/protocol'
import type { ProviderConnections } from '../../profiles/provider-connections.ts'

/** No answer holds a key. */
export function providerConnectionHandlers(options: {
  readonly connections: ProviderConnections
  /** Called by what changes something. */
  readonly touch: () => void
}): Handlers<typeof providerConnectionRoutes> {
  const { connections, touch } = options
  return {
    async listProviderConnections() {
      return { json: await connections.list() }
    },
    async createProviderConnection({ body }) {
      touch()
      return { status: 201, json: await connections.add(body) }
    },
    async updateProviderConnection({ params: { connection_id }, body }) {
      touch()
      return { json: await connections.update(connection_id, body) }
    },
    async deleteProviderConnection({ params: { connection_id } }) {
      touch()
      return { json: await connections.remove(connection_id) }
    },
  }
}
