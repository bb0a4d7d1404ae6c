import { hash, timingSafeEqual } from 'node:crypto'
import type { Handlers } from '@slipway/http'
import { type initRoutes, Problem, type Secret } from '@slipway/protocol'
import type { Init } from '../../init/deferred-init.ts'

/** Not found unless the server waits, or waited, for its settings; who has no key of it learns nothing else. */
export function initHandlers(options: {
  readonly init: Pick<Init<AsyncDisposable>, 'status' | 'give'>
  readonly isDeferred: boolean
  /** Without one nobody needs it. */
  readonly key: Secret | undefined
}): Handlers<typeof initRoutes> {
  const { init, isDeferred, key } = options
  const admit = (offered: string | undefined) => {
    if (!isDeferred) throw new Problem('not_found', 'Not Found')
    if (key !== undefined && !isSame(key.open(), offered)) throw new Problem('unauthorized', 'Unauthorized')
  }
  return {
    getInit({ header }) {
      admit(header('x-init-api-key'))
      return { json: init.status }
    },
    async postInit({ header, body }) {
      admit(header('x-init-api-key'))
      await init.give(body)
      return { json: init.status }
    },
  }
}

/** In a time that does not depend on how far it is right. */
function isSame(key: string, offered: string | undefined): boolean {
  return offered !== undefined && timingSafeEqual(digest(key), digest(offered))
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
