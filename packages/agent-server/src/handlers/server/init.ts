import { hash, timingSafeEqual } from 'node:crypto'
import type { Handlers } from '@slipway/http'
import { type initRoutes, Problem } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'
import type { DeferredInit } from '../../init/deferred-init.ts'

/** Answers 404 unless the server is deferred, and 401 without the init key. */
export function initHandlers(options: {
  readonly deferredInit: Pick<DeferredInit<AsyncDisposable>, 'status' | 'initialize'>
  readonly isDeferred: boolean
  /** Undefined: no key is needed. */
  readonly key: Secret | undefined
}): Handlers<typeof initRoutes> {
  const { deferredInit, isDeferred, key } = options
  const authorize = (providedKey: string | undefined) => {
    if (!isDeferred) throw new Problem('not_found', 'Not Found')
    if (key !== undefined && !isSameKey(key.reveal(), providedKey))
      throw new Problem('unauthorized', 'Unauthorized')
  }
  return {
    getInit({ header }) {
      authorize(header('x-init-api-key'))
      return { json: deferredInit.status }
    },
    async postInit({ header, body }) {
      authorize(header('x-init-api-key'))
      await deferredInit.initialize(body)
      return { json: deferredInit.status }
    },
  }
}

/** Compares in constant time. */
function isSameKey(key: string, providedKey: string | undefined): boolean {
  return providedKey !== undefined && timingSafeEqual(digest(key), digest(providedKey))
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
