import { readFile } from 'node:fs/promises'

/** One listening socket of a table of the kernel. */
interface Listener {
  readonly address: string
  readonly port: number
  readonly user: number
}

const wildcards = ['0.0.0.0', '::']

/**
 * The user of another account that listens at a loopback address of this machine: a key that is sent there
 * would be his. Undefined when nobody, root or the own user listens, and where the system has no
 * `/proc/net/tcp`. Containers forward their ports as root or in the kernel.
 */
export async function findForeignListener(url: string): Promise<number | undefined> {
  const { hostname, port, protocol } = new URL(url)
  const requested = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
  const name = hostname.replace(/^\[|\]$/g, '')
  const addresses = [...(name === 'localhost' ? ['127.0.0.1', '::1'] : [name]), ...wildcards]
  const tables = await Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'latin1').catch(() => '')),
  )
  const trusted = [0, process.getuid?.()]
  return tables
    .flatMap(parseListeners)
    .find(
      ({ address, port, user }) =>
        port === requested && addresses.includes(address) && !trusted.includes(user),
    )?.user
}

/** The listening sockets in a text of `/proc/net/tcp` or `/proc/net/tcp6`. */
export function parseListeners(table: string): Listener[] {
  return table.split('\n').flatMap((line) => {
    const [, local = '', , state, , , , user] = line.trim().split(/\s+/)
    const [address = '', port = ''] = local.split(':')
    return state === '0A'
      ? [{ address: parseAddress(address), port: Number.parseInt(port, 16), user: Number(user) }]
      : []
  })
}

/** Words of 32 bits in the order of this machine's bytes, which is little-endian wherever Node runs. */
function parseAddress(hex: string): string {
  const bytes = hex.match(/.{8}/g)?.flatMap((word) => (word.match(/../g) ?? []).toReversed()) ?? []
  const isMapped = /^0{20}f{4}/i.test(bytes.join(''))
  if (bytes.length === 4 || isMapped)
    return bytes
      .slice(-4)
      .map((byte) => Number.parseInt(byte, 16))
      .join('.')
  const last = bytes.at(-1) ?? ''
  const isLoopbackOrAny = bytes.slice(0, -1).every((byte) => byte === '00') && /^0[01]$/.test(last)
  return isLoopbackOrAny ? (last === '01' ? '::1' : '::') : bytes.join('')
}
