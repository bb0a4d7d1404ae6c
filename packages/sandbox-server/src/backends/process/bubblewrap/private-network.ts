import { networkInterfaces } from 'node:os'

/** What connects a network namespace with the outside: a user-space network, without rights on the host. */
export interface PrivateNetwork {
  readonly pasta: string
  readonly setpriv: string
}

/** The descriptor on which bubblewrap reports the process in the new namespaces. */
export const infoFd = 6

/**
 * The beginning of a pasta command, to which the supervisor adds its target. IPv4 only. No port is forwarded
 * in either direction but `hostPorts`, and the gateway is not an address of the host.
 */
export function pastaCommand(
  { pasta }: PrivateNetwork,
  isRoot: boolean,
  hostPorts: readonly number[],
): readonly string[] {
  const outgoing = hostPorts.length === 0 ? 'none' : hostPorts.join(',')
  return [
    ...[pasta, '--quiet', '--foreground', '--ipv4-only', '--config-net', '--no-map-gw'],
    ...['-t', 'none', '-u', 'none', '-U', 'none', '-T', outgoing],
    // As root it joins the network by a descriptor; otherwise also the user namespace, by the process.
    ...(!isRoot ? [] : ['--runas', '0:0', '--netns-only', '--netns']),
  ]
}

/**
 * Says that it is there, waits for the network, closes the way to addresses of the host, and continues with
 * the arguments after the first.
 */
const enterScript = `
echo ready >&7
exec 7>&-
tries=0
until [ -n "$(ip -4 route show default)" ]; do
  tries=$((tries + 1))
  [ $tries -gt 1000 ] && { echo 'Its network could not be connected'; exit 125; }
  sleep 0.02
done
for each in $1; do ip route replace blackhole "$each" || exit 125; done
shift
exec "$@"`

/**
 * The beginning of a command in the new namespaces, which then runs without the right to change the network.
 */
export function enterNetwork({ setpriv }: PrivateNetwork, isRoot: boolean): readonly string[] {
  // As root it becomes another user afterwards, which drops every right.
  const drop = isRoot ? [] : [setpriv, '--bounding-set=-all,+setfcap', '--inh-caps=-all']
  return ['/bin/sh', '-c', enterScript, 'slipway-network', blockedRanges().join(' '), ...drop]
}

/**
 * Link-local addresses, among them services that tell about the machine, and the addresses of this machine.
 */
function blockedRanges(): readonly string[] {
  const own = Object.values(networkInterfaces()).flatMap((each) => each ?? [])
  // The loopback interface may have addresses that the network reaches, as those of a cluster's services.
  const addresses = own.filter(({ family, address }) => family === 'IPv4' && !address.startsWith('127.'))
  return ['169.254.0.0/16', ...new Set(addresses.map(({ address }) => `${address}/32`))]
}
