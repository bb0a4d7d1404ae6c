import type { Handlers } from '@slipway/http'
import type { providerConnectionRoutes } from '@slipway/protocol'
import type { ProviderConnections } from './provider-connections.ts'

/** No answer has a key. */
export function providerConnectionHandlers(options: {
  readonly connections: ProviderConnections
}): Handlers<typeof providerConnectionRoutes> {
  const { connections } = options
  return {
    listProviderConnections: async () => ({ json: await connections.list() }),
    createProviderConnection: async ({ body }) => ({ status: 201, json: await connections.add(body) }),
    async updateProviderConnection({ params: { connection_id }, body }) {
      return { json: await connections.update(connection_id, body) }
    },
    async deleteProviderConnection({ params: { connection_id } }) {
      return { json: await connections.remove(connection_id) }
    },
  }
}
