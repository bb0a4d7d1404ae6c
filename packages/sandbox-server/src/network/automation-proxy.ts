import type { ProxyRoute } from '@slipway/http'
import { Problem } from '@slipway/protocol'

const prefix = '/api/automation'

/**
 * The scheduler of the reference, a separate program, where clients look for it. It asks this server who a
 * caller is. Without one the answer is 503, which web clients take for a service that is off.
 */
export function automationProxyRoute(url: string | undefined): ProxyRoute {
  return {
    prefix,
    isUntrusted: true,
    async target() {
      if (url !== undefined) return { url: url + prefix, headers: { cookie: undefined } }
      throw new Problem('unavailable', 'This server has no automations: SLIPWAY_AUTOMATION_URL is not set')
    },
  }
}
