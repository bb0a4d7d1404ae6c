import type { ProxyRoute, SocketRoute } from '@slipway/http'
import type { Activity } from './activity.ts'

type HandlerTable = Readonly<Record<string, (request: never) => unknown>>

/** Handlers that are looked up in a later table when called. Calls are recorded as activity of the server. */
export function lazyHandlers<H extends HandlerTable>(
  names: readonly string[],
  getTable: () => H,
  activity: Activity,
): H {
  const handlers = names.map((name) => {
    const handle = (request: never) => {
      const handler = getTable()[name]
      return activity.track(name, () => handler?.(request))
    }
    return [name, handle]
  })
  return Object.fromEntries(handlers) // all names of the table
}

/** The same for a WebSocket path. */
export function lazySocketRoute(
  path: string,
  getRoute: () => SocketRoute,
  options: Pick<SocketRoute, 'takesBinary'> = {},
): SocketRoute {
  return {
    path,
    ...options,
    accepts: (request) => getRoute().accepts(request),
    serve: async (socket, request) => await getRoute().serve(socket, request),
  }
}

/** The same for what is below the path of a bridge. */
export function lazyBridgeRoute(prefix: string, getRoute: () => ProxyRoute): ProxyRoute {
  return { prefix, isBridge: true, target: async (request) => await getRoute().target(request) }
}
