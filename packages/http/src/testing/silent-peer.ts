import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** A peer that has been let in and then reads and answers nothing. */
export async function silentPeer({ port }: { readonly port: number }, address: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  const head = [
    `GET ${address} HTTP/1.1`,
    'Host: localhost',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-WebSocket-Version: 13',
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  await once(socket, 'readable')
  return socket
}
