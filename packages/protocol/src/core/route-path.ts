import { Problem } from './problem.ts'
import type { Route } from './route.ts'

/**
 * The path of a route with its parameters, percent-encoded. Throws a Problem for a dot segment, also between
 * backslashes: readers of addresses resolve `..`, so the path would be that of another route. Throws one too
 * for a half of a surrogate pair, which has no encoding.
 */
export function buildRoutePath(
  route: Pick<Route, 'path'>,
  params: Readonly<Record<string, unknown>>,
): string {
  return route.path.replace(/\{(\w+)(\*?)\}/g, (_, name: string, rest: string) => {
    const value = String(params[name])
    if (!value.isWellFormed() || value.split(/[/\\]/).some((segment) => /^\.{1,2}$/.test(segment)))
      throw new Problem('bad_request', 'The address is not valid')
    return rest === '' ? encodeURIComponent(value) : value.split('/').map(encodeURIComponent).join('/')
  })
}
