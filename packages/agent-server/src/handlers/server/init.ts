import type { Handlers } from '@slipway/http'
import { type initRoutes, Problem } from '@slipway/protocol'
import type { DeferredInit } from '../../init/deferred-init.ts'

/** Answers 404 unless the server is deferred; to settings without the init key 401. */
export function initHandlers(options: {
  readonly deferredInit: Pick<DeferredInit<AsyncDisposable>, 'status' | 'authorize' | 'initialize'>
  readonly isDeferred: boolean
}): Handlers<typeof initRoutes> {
  const { deferredInit, isDeferred } = options
  const assertDeferred = () => {
    if (!isDeferred)
      throw new Problem(
        'not_found',
        'The server was not started to wait for its settings (deferred_init=True)',
      )
  }
  return {
    getInit() {
      assertDeferred()
      return { json: deferredInit.status }
    },
    async postInit({ header, body }) {
      const key = header('x-init-api-key')
      deferredInit.authorize(key)
      assertDeferred()
      await deferredInit.initialize(body, key)
      return { json: deferredInit.status }
    },
  }
}
