// Answers only the names of Services: `<service>.<namespace>.svc`, with or without `.cluster.local`.
// `node dns.js <API server> <token> <address>`; the certificate is named by NODE_EXTRA_CA_CERTS.
import { createSocket } from 'node:dgram'

const [server, token, address] = process.argv.slice(2)
const typeA = 1
const noSuchName = 3
const serverFailure = 2

async function findService(name) {
  const [service, namespace, kind, ...rest] = name.toLowerCase().split('.')
  if (kind !== 'svc' || !['', 'cluster.local'].includes(rest.join('.'))) return undefined
  const path = [namespace, 'services', service].map(encodeURIComponent).join('/')
  const headers = { authorization: `Bearer ${token}` }
  const response = await fetch(`${server}/api/v1/namespaces/${path}`, {
    headers,
    signal: AbortSignal.timeout(4_000),
  })
  if (response.status === 404) return undefined
  if (!response.ok) throw new Error(`${path}: ${response.status}`)
  const { clusterIP } = (await response.json()).spec
  return /^[0-9.]+$/.test(clusterIP) ? clusterIP : undefined
}

/** The name and the end of the one question. */
function readQuestion(message) {
  const labels = []
  let at = 12
  for (let length = message[at]; length !== 0; length = message[at]) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.'), type: message.readUInt16BE(at + 1), end: at + 5 }
}

async function answer(message) {
  const { name, type, end } = readQuestion(message)
  let code = 0
  const ip = await findService(name).catch((error) => {
    console.error(String(error))
    code = serverFailure
  })
  if (ip === undefined) code ||= noSuchName
  const hasAnswer = ip !== undefined && type === typeA
  const head = Buffer.alloc(12)
  message.copy(head, 0, 0, 2)
  // A response of an authority, with recursion as it was asked for.
  head.writeUInt16BE(0x8480 | (message.readUInt16BE(2) & 0x0100) | code, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(hasAnswer ? 1 : 0, 6)
  const record = Buffer.from([
    0xc0,
    12,
    0,
    typeA,
    0,
    1,
    0,
    0,
    0,
    5,
    0,
    4,
    ...(ip ?? '').split('.').map(Number),
  ])
  return Buffer.concat([head, message.subarray(12, end), ...(hasAnswer ? [record] : [])])
}

const socket = createSocket('udp4')
socket.on('message', (message, { address: from, port }) => {
  Promise.resolve(message)
    .then(answer)
    .then((reply) => socket.send(reply, port, from))
    .catch((error) => console.error(String(error)))
})
socket.bind(53, address)
