import type { SocketRoute } from '@slipway/http'

type HandlerTable = Readonly<Record<string, (request: never) => unknown>>

/** A table of functions of these names, each of which is looked up when it is called: the table it comes from is made later. */
export function lazyHandlers<H extends HandlerTable>(names: readonly string[], getTable: () => H): H {
  const handlers = names.map((name) => [name, (request: never) => getTable()[name]?.(request)])
  return Object.fromEntries(handlers) // all names of the table
}

/** The same for a WebSocket path. */
export function lazySocketRoute(path: string, getRoute: () => SocketRoute): SocketRoute {
  return {
    path,
    accepts: (request) => getRoute().accepts(request),
    serve: async (socket, request) => await getRoute().serve(socket, request),
  }
}
