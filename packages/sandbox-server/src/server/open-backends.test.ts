import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Isolation } from '../backends/backend.ts'
import { readConfig } from '../config/config.ts'
import { assertIsolated, openBackends } from './open-backends.ts'

/** A compilation that has begun may still write to it. */
function remove(directory: string): void {
  rmSync(directory, { recursive: true, maxRetries: 20, retryDelay: 100 })
}

test('without isolation the server refuses to start and says what to install', async () => {
  const backend = (kind: Isolation['kind']) => ({
    isolation: async () => ({ kind, enforced: [], notes: ['Bubblewrap is not installed.'] }),
  })
  const refusal = /not be isolated.*not installed.*Install bubblewrap.*SLIPWAY_ISOLATION=none/
  const auto = { isolation: 'auto' } as const
  await expect(assertIsolated(backend('none'), auto, {})).rejects.toThrow(refusal)
  const options = { isIsolationOptional: false }
  await expect(assertIsolated(backend('none'), auto, options)).rejects.toThrow(refusal)
  await assertIsolated(backend('namespaces'), auto, {})
  await assertIsolated(backend('none'), auto, { isIsolationOptional: true })
  await assertIsolated(backend('none'), { isolation: 'none' }, {})
})

test('SLIPWAY_ISOLATION=none accepts ordinary processes', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-backends-'))
  try {
    const backends = await openBackends(readConfig({ SLIPWAY_ISOLATION: 'none' }), {
      directory,
      socketDirectory: directory,
      ledgerId: 'ledger-of-this-test-0123',
      agent: { command: [process.execPath], readable: [] },
      log: () => {},
    })
    expect((await backends.get('process')?.isolation())?.kind).toBe('none')
  } finally {
    remove(directory)
  }
})

test('an invalid kubeconfig is refused at the start, and an absent API server is not', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-backends-'))
  const open = (kubeconfig: string) => {
    const file = join(directory, 'kubeconfig')
    writeFileSync(file, kubeconfig)
    return openBackends(readConfig({ SLIPWAY_BACKEND: 'kubernetes', SLIPWAY_KUBECONFIG: file }), {
      ...{ directory, socketDirectory: directory, ledgerId: 'ledger-of-this-test-0123', log: () => {} },
      agent: { command: [process.execPath], readable: [] },
    })
  }
  try {
    await expect(open('{"clusters":[]}')).rejects.toThrow()
    const away = { name: 'c', cluster: { server: 'https://127.0.0.1:1' } }
    const context = { name: 'c', context: { cluster: 'c', user: 'u', namespace: 'agents' } }
    const valid = {
      clusters: [away],
      users: [{ name: 'u', user: {} }],
      contexts: [context],
      'current-context': 'c',
    }
    const backend = (await open(JSON.stringify(valid))).get('kubernetes')
    expect((await backend?.isolation())?.kind).toBe('container')
    await expect(backend?.list()).rejects.toThrow('The Kubernetes API server refuses it')
  } finally {
    remove(directory)
  }
})

test('a cluster without the custom resource of agent-sandbox is refused at the start, and says what to install', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-backends-'))
  const asked: (string | undefined)[] = []
  const server = createServer(({ url }, response) => {
    asked.push(url)
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"message":"not found"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    remove(directory)
  })
  const { port } = server.address() as AddressInfo
  const file = join(directory, 'kubeconfig')
  const kubeconfig = {
    clusters: [
      {
        name: 'c',
        cluster: { server: `http://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true },
      },
    ],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u', namespace: 'agents' } }],
    'current-context': 'c',
  }
  writeFileSync(file, JSON.stringify(kubeconfig))
  const opened = openBackends(readConfig({ SLIPWAY_BACKEND: 'agent-sandbox', SLIPWAY_KUBECONFIG: file }), {
    ...{ directory, socketDirectory: directory, ledgerId: 'ledger-of-this-test-0123', log: () => {} },
    agent: { command: [process.execPath], readable: [] },
  })
  await expect(opened).rejects.toThrow(
    /does not serve sandboxes\.agents\.x-k8s\.io in version v1beta1\. Install its custom resources and its controller.*SLIPWAY_BACKEND=kubernetes/,
  )
  expect(asked).toEqual(['/apis/agents.x-k8s.io/v1beta1'])
})

test('sandboxes share the network of the machine only when that is asked for', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-backends-'))
  const open = async (env: Record<string, string>, isIsolationOptional: boolean) => {
    const opened = openBackends(readConfig({ SLIPWAY_ISOLATION: 'none', ...env }), {
      ...{ directory, socketDirectory: directory, ledgerId: 'ledger-of-this-test-0123', log: () => {} },
      agent: { command: [process.execPath], readable: [] },
      isIsolationOptional,
    })
    return (await opened).get('process')
  }
  try {
    // Ordinary processes are in the network of the machine, whatever their spec says.
    const backend = await open({}, false)
    expect(backend?.hostUrl(4711, 'private')).toBe('http://127.0.0.1:4711')
    const networks = (env: Record<string, string>) => readConfig(env).specs.map(({ network }) => network)
    expect(networks({})).toEqual(['private'])
    expect(networks({ SLIPWAY_SANDBOX_NETWORK: 'shared' })).toEqual(['shared'])
    const specs = '[{"id":"a"},{"id":"b","network":"none"}]'
    expect(networks({ SLIPWAY_SANDBOX_SPECS: specs, SLIPWAY_SANDBOX_NETWORK: 'shared' })).toEqual([
      'shared',
      'none',
    ])
  } finally {
    remove(directory)
  }
})
