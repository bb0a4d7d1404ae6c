import type { SocketRoute } from '@slipway/http'

type Functions = Readonly<Record<string, (request: never) => unknown>>

/** A table of functions of these names, each of which is looked up when it is called: the table it comes from is made later. */
export function late<H extends Functions>(names: readonly string[], table: () => H): H {
  const functions = names.map((name) => [name, (request: never) => table()[name]?.(request)])
  return Object.fromEntries(functions) // all names of the table
}

/** The same for a WebSocket path. */
export function lateSocket(path: string, route: () => SocketRoute): SocketRoute {
  return {
    path,
    accepts: (request) => route().accepts(request),
    serve: async (socket, request) => await route().serve(socket, request),
  }
}
