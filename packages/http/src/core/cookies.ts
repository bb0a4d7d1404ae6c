/** The values of one name in a `Cookie` header, in its order: cookies of several paths can share a name. */
export function cookieValues(header: string | undefined, name: string): string[] {
  return (header ?? '').split(';').flatMap((pair) => {
    const equals = pair.indexOf('=')
    return equals >= 0 && pair.slice(0, equals).trim() === name ? [pair.slice(equals + 1).trim()] : []
  })
}
