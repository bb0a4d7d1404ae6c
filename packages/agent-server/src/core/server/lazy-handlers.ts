import type { ProxyRoute, SocketRoute } from '@slipway/http'
import { must } from '@slipway/protocol'
import type { Activity } from './activity.ts'

/** What is known of a socket before its module is open. */
export type SocketPath = Pick<SocketRoute, 'path' | 'takesBinary'>

type Table<T> = Readonly<Record<string, T>>
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
export function lazySocketRoute(socket: SocketPath, getTable: () => Table<SocketRoute>): SocketRoute {
  const getRoute = () => must(getTable()[socket.path], 'the socket')
  return {
    ...socket,
    accepts: (request) => getRoute().accepts(request),
    serve: async (socket, request) => await getRoute().serve(socket, request),
  }
}

/** The same for what is below the path of a bridge. */
export function lazyBridgeRoute(prefix: string, getTable: () => Table<ProxyRoute>): ProxyRoute {
  const getRoute = () => must(getTable()[prefix], 'the proxy')
  return { prefix, isBridge: true, target: async (request) => await getRoute().target(request) }
}
