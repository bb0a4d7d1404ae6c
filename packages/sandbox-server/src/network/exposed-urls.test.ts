import { expect, test } from 'vitest'
import { type Expose, exposedUrls } from './exposed-urls.ts'

const tcp = { AGENT_SERVER: 'http://127.0.0.1:4711', WORKER_1: 'http://127.0.0.1:4712' }
const unix = { AGENT_SERVER: 'http+unix://%2Frun%2Fx.sock' }

function urls(addresses: Record<string, string>, publicUrl: string, expose: Expose = 'auto'): string[] {
  return exposedUrls('sb-1', { addresses }, { publicUrl, expose }).map(
    ({ name, url, port }) => `${name} ${url} ${port}`,
  )
}

test.each([
  ['http://127.0.0.1:3000', 'auto', 'http://127.0.0.1:4711 4711'],
  ['http://localhost:3000/base', 'auto', 'http://127.0.0.1:4711 4711'],
  ['http://[::1]:3000', 'auto', 'http://127.0.0.1:4711 4711'],
  ['https://slipway.example', 'auto', 'https://slipway.example/sandboxes/sb-1/agent 443'],
  ['https://slipway.example/base/', 'auto', 'https://slipway.example/base/sandboxes/sb-1/agent 443'],
  ['http://slipway.example:8080', 'auto', 'http://slipway.example:8080/sandboxes/sb-1/agent 8080'],
  ['http://127.0.0.1:3000', 'relay', 'http://127.0.0.1:3000/sandboxes/sb-1/agent 3000'],
  ['https://slipway.example', 'direct', 'http://slipway.example:4711 4711'],
] as const)(
  'callers who know this server as %s (%s) reach the agent server at %s',
  (publicUrl, expose, url) => {
    const [agent, worker, ...more] = urls(tcp, publicUrl, expose)
    expect(agent).toBe(`AGENT_SERVER ${url}`)
    expect(worker).toMatch(/^WORKER_1 /)
    expect(more).toEqual([])
  },
)

test('addresses without a port always use the proxy, and unknown names are left out', () => {
  const relayed = 'AGENT_SERVER http://127.0.0.1:3000/sandboxes/sb-1/agent 3000'
  expect(urls(unix, 'http://127.0.0.1:3000')).toEqual([relayed])
  expect(urls(unix, 'http://127.0.0.1:3000', 'direct')).toEqual([relayed])
  expect(urls({ ...unix, OTHER: 'http://127.0.0.1:1' }, 'http://127.0.0.1:3000')).toEqual([relayed])
  expect(urls({}, 'http://127.0.0.1:3000')).toEqual([])
})
