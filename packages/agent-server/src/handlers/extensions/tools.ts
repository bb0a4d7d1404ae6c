import { toolNames } from '@slipway/agent'
import type { Handlers } from '@slipway/http'
import type { toolRoutes } from '@slipway/protocol'

export function toolHandlers(): Handlers<typeof toolRoutes> {
  return { listTools: () => ({ json: toolNames() }) }
}
