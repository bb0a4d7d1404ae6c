import { type LookupAddress, lookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'

/** Addresses that are not on the internet, and those that contain or translate to others. */
const special = new BlockList()
for (const range of [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12'],
  ...['192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15'],
  ...['198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4', '240.0.0.0/4'],
]) {
  const [network = '', prefix] = range.split('/')
  special.addSubnet(network, Number(prefix), 'ipv4')
}
for (const range of ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']) {
  const [network = '', prefix] = range.split('/')
  special.addSubnet(network, Number(prefix), 'ipv6')
}
/** The unicast addresses of the internet; all others are local, mapped or translated ones. */
const globalUnicast = new BlockList()
globalUnicast.addSubnet('2000::', 3, 'ipv6')

/**
 * Whether an IP address is on the internet: not this machine, its networks, or a range with a special use.
 */
export function isPublicAddress(address: string): boolean {
  const version = isIP(address)
  if (version === 4) return !special.check(address, 'ipv4')
  return version === 6 && globalUnicast.check(address, 'ipv6') && !special.check(address, 'ipv6')
}

/** A connection that was refused because it would not leave the networks of this machine. */
export class PrivateAddressError extends Error {
  override readonly name = 'PrivateAddressError'

  constructor(host: string) {
    super(`The address ${host} is in a private network or on this machine; only public ones may be fetched.`)
  }
}

/**
 * Resolves a name for a connection, which goes to exactly these addresses, unless `check` returns an error.
 */
export function checkedLookup(
  check: (host: string, addresses: readonly string[]) => Error | undefined,
): LookupFunction {
  return (host, options, callback) => {
    lookup(host, { ...options, all: true }, (error, addresses: readonly LookupAddress[]) => {
      const [first] = addresses ?? []
      if (error !== null || first === undefined)
        return callback(error ?? new Error(`The name ${host} has no address.`), [])
      const texts = addresses.map(({ address }) => address)
      const failure = check(host, texts)
      if (failure !== undefined) return callback(failure, [])
      if (options.all) callback(null, [...addresses])
      else callback(null, first.address, first.family)
    })
  }
}

/** Fails with a PrivateAddressError when any of the addresses is not public. */
export const lookupPublic = checkedLookup((host, addresses) =>
  addresses.every(isPublicAddress) ? undefined : new PrivateAddressError(host),
)
