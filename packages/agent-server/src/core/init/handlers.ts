import type { Handlers } from '@slipway/http'
import type { initRoutes } from '@slipway/protocol'
import type { DeferredInit } from './deferred-init.ts'

/** Answers 404 unless the server is deferred; to settings without the init key 401. */
export function initHandlers(
  deferredInit: Pick<DeferredInit<AsyncDisposable>, 'status' | 'assertDeferred' | 'authorize' | 'initialize'>,
): Handlers<typeof initRoutes> {
  return {
    getInit() {
      deferredInit.assertDeferred()
      return { json: deferredInit.status }
    },
    async postInit({ header, body }) {
      const key = header('x-init-api-key')
      deferredInit.authorize(key)
      await deferredInit.initialize(body, key)
      return { json: deferredInit.status }
    },
  }
}
