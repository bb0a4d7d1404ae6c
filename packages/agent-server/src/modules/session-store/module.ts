import type { Handlers } from '@slipway/http'
import { sessionStoreRoutes } from '@slipway/protocol'
import { OpenedOnce } from '@slipway/shared/async'
import { defineModule } from '../../core/module.ts'
import type { SessionStore } from './session-store.ts'

/** The door of session stores of the Claude Agent SDK. What is behind it is loaded with the first request. */
export const sessionStoreModule = defineModule({
  name: 'session-store',
  routes: sessionStoreRoutes,
  open({ storage, call, host: { clock } }) {
    const store = new OpenedOnce(async () => {
      const { SessionStore } = await import('./session-store.ts')
      return new SessionStore({ storage, call, clock })
    })
    return { handlers: sessionStoreHandlers(() => store.get()) }
  },
})

function sessionStoreHandlers(open: () => Promise<SessionStore>): Handlers<typeof sessionStoreRoutes> {
  return {
    appendSessionEntries: async ({ query, stream }) => ({
      status: 201,
      json: await (await open()).append(query, stream),
    }),
    loadSessionEntries: async ({ query }) => ({
      chunks: (await open()).load(query),
      contentType: 'application/x-ndjson',
    }),
    async deleteSession({ query, signal }) {
      await (await open()).remove(query, signal)
      return { json: { success: true } }
    },
    listStoredSessions: async ({ query }) => ({ json: await (await open()).listSessions(query.project_key) }),
    listSessionSubpaths: async ({ query }) => ({ json: await (await open()).listSubpaths(query) }),
  }
}
