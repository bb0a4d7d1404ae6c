import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { isLoopback } from '@slipway/shared/url'

const peers = new WeakMap<Socket, string>()

/**
 * Who sends the requests of a connection, as far as the system tells: `user:<uid>` of a program of this
 * machine (Linux, TCP), `local` when its user is unknown, `remote` for other machines, `socket` for a Unix
 * socket. Behind a proxy that is the proxy.
 */
export function peerOf(socket: Socket): string {
  const known = peers.get(socket)
  if (known !== undefined) return known
  const { remoteAddress, localAddress } = socket
  const isLocal = remoteAddress === localAddress || isLoopback((remoteAddress ?? '').replace(/^::ffff:/, ''))
  const user = remoteAddress === undefined || !isLocal ? undefined : findUser(socket)
  const place = remoteAddress === undefined ? 'socket' : isLocal ? 'local' : 'remote'
  const peer = user === undefined ? place : `user:${user}`
  peers.set(socket, peer)
  return peer
}

/**
 * The user of the other end, by the tables of the kernel. Ports are unique among connections to one port of
 * ours.
 */
function findUser({ remotePort, localPort, remoteAddress = '' }: Socket): string | undefined {
  const toHex = (port = 0) => port.toString(16).toUpperCase().padStart(4, '0')
  const files = remoteAddress.includes('.') ? ['tcp', 'tcp6'] : ['tcp6', 'tcp']
  for (const file of files) {
    for (const line of readTable(`/proc/net/${file}`).split('\n')) {
      const [, local = '', remote = '', state, , , , uid] = line.trim().split(/\s+/)
      const isOther = local.endsWith(`:${toHex(remotePort)}`) && remote.endsWith(`:${toHex(localPort)}`)
      if (isOther && state === '01') return uid
    }
  }
  return undefined
}

function readTable(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
