import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { waitForValue } from '../backend.contract.ts'
import { Cluster } from './cluster.ts'

/** An API server of which each watch of Pods is answered by the next part of a script. */
async function openScriptedServer(parts: readonly ((response: ServerResponse) => void)[]) {
  const watches: URLSearchParams[] = []
  const pods: object[] = []
  let lists = 0
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://x')
    const isPods = url.pathname.endsWith('/pods')
    if (url.searchParams.get('watch') === 'true') {
      if (!isPods) return void response.write('')
      const part = parts[watches.length]
      watches.push(url.searchParams)
      // The last watch continues without end.
      return part === undefined ? void response.flushHeaders() : part(response)
    }
    if (request.method === 'POST')
      return void response.writeHead(403).end('{"message":"exceeded quota: pods"}')
    if (url.pathname.endsWith('/events')) return void response.writeHead(401).end('{"message":"who are you"}')
    if (isPods) lists += 1
    const version = String(100 * lists)
    const body = {
      kind: 'List',
      apiVersion: 'v1',
      metadata: { resourceVersion: version },
      items: isPods ? pods : [],
    }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const directory = await mkdtemp(join(tmpdir(), 'slipway-kubeconfig-'))
  onTestFinished(async () => {
    server.close()
    server.closeAllConnections()
    await rm(directory, { recursive: true })
  })
  const kubeconfig = join(directory, 'kubeconfig')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  await writeFile(
    kubeconfig,
    JSON.stringify({
      clusters: [{ name: 'c', cluster: { server: url, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'u', user: { token: 'token-of-this-test' } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'c',
    }),
  )
  const cluster = await Cluster.open({ kubeconfig, namespace: 'n' })
  return { cluster, watches, pods, lists: () => lists }
}

const podOf = (name: string, resourceVersion: string) => ({
  metadata: { name, namespace: 'n', resourceVersion },
})
const send = (response: ServerResponse, ...events: object[]) =>
  response.end(events.map((event) => `${JSON.stringify(event)}\n`).join(''))

test('a watch continues at its bookmark, and lists again when its version has expired or is refused', async () => {
  const seen: string[] = []
  const logged: string[] = []
  const at = await openScriptedServer([
    (response) => send(response, { type: 'BOOKMARK', object: podOf('', '150') }),
    (response) => {
      at.pods.push(podOf('b', '199'))
      const expired = { kind: 'Status', code: 410, reason: 'Expired' }
      send(response, { type: 'ERROR', object: expired })
    },
    (response) => response.writeHead(429).end(),
    (response) => {
      at.pods.push(podOf('c', '299'))
      response.writeHead(410).end()
    },
    (response) => send(response, { type: 'ADDED', object: podOf('d', '350') }),
    (response) => response.destroy(),
  ])
  at.pods.push(podOf('a', '1'))
  const watch = at.cluster.watch(
    'l=1',
    ({ metadata }) => void seen.push(metadata?.name ?? ''),
    (_, message) => void logged.push(message),
  )
  onTestFinished(() => watch[Symbol.dispose]())
  await waitForValue(async () => (at.watches.length === 7 ? true : undefined), 'seven watches')
  expect(seen).toEqual(['a', 'b', 'c', 'd'])
  expect(at.watches.map((query) => query.get('resourceVersion'))).toEqual([
    ...['100', '150', '200', '200', '300', '350', '350'],
  ])
  for (const query of at.watches) {
    expect(query.get('allowWatchBookmarks')).toBe('true')
    expect(query.get('labelSelector')).toBe('l=1')
  }
  expect(at.lists()).toBe(3)
  expect(logged[0]).toContain('is repeated')
}, 90_000)

test('a refused call names the reason of the API server, and never the token', async () => {
  const { cluster } = await openScriptedServer([])
  const refused = await cluster.createPod({})
  expect(refused).toEqual({ ok: false, status: 403, reason: 'exceeded quota: pods' })
  const failure = await cluster.listEvents('p').catch((error: Error) => error)
  expect(inspect(failure)).toMatch(/refuses it: Unauthorized/)
  expect(inspect(failure)).not.toContain('token-of-this-test')
})
