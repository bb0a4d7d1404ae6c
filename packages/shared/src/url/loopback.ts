/** Whether a host, brackets of IPv6 included or not, is this machine by the rules of every resolver. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || /^(?:127(?:\.\d{1,3}){3}|::1|\[::1\])$/.test(host)
}

/**
 * Whether browsers take a host for this machine: also a name below `localhost`, which other resolvers may
 * look up elsewhere. A key is sent to `isLoopback` alone.
 */
export function isBrowserLoopback(host: string): boolean {
  return isLoopback(host) || host.endsWith('.localhost')
}
