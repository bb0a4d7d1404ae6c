import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { SandboxConfig } from '../backend.ts'
import { type ContainerContext, containerOptions } from './container-options.ts'
import { configHash, sandboxLabels } from './labels.ts'
import { initialDirectories, validateConfig, volumeTargets } from './sandbox-paths.ts'

const order: SandboxConfig = {
  id: 'one',
  image: null,
  command: [],
  env: { A: '1' },
  workingDir: '',
  resources: {},
  network: 'shared',
}

const place: ContainerContext = {
  ledgerId: 'ledger',
  image: 'i',
  name: 'n',
  network: 'w',
  hostAddress: '172.18.0.1',
  hasInit: true,
  capabilities: { memory: true, processes: true, cpus: true, cores: 2, isRootless: false },
}

test('nothing of the host is in a container, and it may nothing', () => {
  const { User, HostConfig } = containerOptions(order, place)
  expect(User).toBe('10001:10001')
  expect(HostConfig).toMatchObject({
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges'],
    ReadonlyRootfs: true,
    Mounts: [{ Type: 'volume', Source: 'n', Target: '/workspace' }],
    RestartPolicy: { Name: 'no' },
  })
  for (const name of ['Binds', 'Privileged', 'CapAdd', 'Devices', 'PidMode', 'VolumesFrom', 'GroupAdd']) {
    expect(HostConfig).not.toHaveProperty(name)
  }
})

test('a port is published at one address of the host, and the engine chooses its number', () => {
  const bindings = containerOptions(order, place).HostConfig?.PortBindings
  const free = [{ HostIp: '127.0.0.1', HostPort: '' }]
  expect(bindings).toEqual({ '8000/tcp': free, '8011/tcp': free, '8012/tcp': free })
})

test('a command replaces that of the image and gets the address to listen on', () => {
  const { Entrypoint, Cmd } = containerOptions({ ...order, command: ['/bin/x', '--y', 'z'] }, place)
  expect(Entrypoint).toEqual(['/bin/x'])
  expect(Cmd).toEqual(['--y', 'z', '--host', '0.0.0.0', '--port', '8000', '--data', '/workspace/.slipway'])
  expect(containerOptions(order, place)).not.toHaveProperty('Entrypoint')
  expect(containerOptions(order, place)).not.toHaveProperty('Cmd')
})

test('limits are set where the engine supports them', () => {
  const limited = {
    ...order,
    resources: { memoryBytes: 1e8, maxProcesses: 9, cpus: 64, maxOpenFiles: 1e6, diskBytes: 5 },
  }
  expect(containerOptions(limited, place).HostConfig).toMatchObject({
    Memory: 1e8,
    MemorySwap: 1e8,
    PidsLimit: 9,
    // No more than there are: an engine refuses that.
    NanoCpus: 2e9,
    Ulimits: [
      { Name: 'nofile', Soft: 20_000, Hard: 20_000 },
      { Name: 'nproc', Soft: 20_000, Hard: 20_000 },
    ],
  })
  const capabilities = { memory: false, processes: false, cpus: false, cores: 2, isRootless: true }
  const unlimited = containerOptions(limited, { ...place, capabilities }).HostConfig
  for (const name of ['Memory', 'MemorySwap', 'PidsLimit', 'NanoCpus'])
    expect(unlimited).not.toHaveProperty(name)
  expect(unlimited?.Ulimits).toHaveLength(1)
  for (const name of ['Memory', 'PidsLimit', 'NanoCpus', 'Ulimits']) {
    expect(containerOptions(order, place).HostConfig).not.toHaveProperty(name)
  }
})

test('the environment is the order’s, with a writable HOME unless it sets one', () => {
  expect(containerOptions(order, place).Env).toEqual(['HOME=/workspace/.home', 'A=1'])
  expect(containerOptions({ ...order, env: { HOME: '/h' } }, place).Env).toEqual(['HOME=/h'])
})

test('a working directory elsewhere is the volume too', () => {
  expect(volumeTargets(order)).toEqual(['/workspace'])
  expect(volumeTargets({ ...order, workingDir: '/workspace/a/b' })).toEqual(['/workspace'])
  expect(volumeTargets({ ...order, workingDir: '/workspaces' })).toEqual(['/workspace', '/workspaces'])
  expect(volumeTargets({ ...order, workingDir: '/srv/repo' })).toEqual(['/workspace', '/srv/repo'])
})

test('a volume has the working directory with its parents from the start', () => {
  const names = (workingDir: string) => initialDirectories({ ...order, workingDir }).map(({ name }) => name)
  expect(names('')).toEqual(['.', './.home', './project'])
  expect(names('/workspace/a/b')).toEqual(['.', './.home', './a', './a/b'])
  expect(names('/srv')).toEqual(['.', './.home'])
  expect(names('/workspace')).toEqual(['.', './.home'])
})

test('an impossible container is reported', () => {
  expect(validateConfig(order)).toBeUndefined()
  expect(validateConfig({ ...order, network: 'none' })).toContain('without a network')
  for (const workingDir of ['rel', '/', '/a/../b', '/a//b', '/a/', '/a/./b', '/a\0b', `/${'x'.repeat(90)}`]) {
    expect(validateConfig({ ...order, workingDir })).toContain('working directory')
  }
  for (const workingDir of ['/srv/repo', '/workspace/täst dir', `/${'x'.repeat(89)}`]) {
    expect(validateConfig({ ...order, workingDir })).toBeUndefined()
  }
})

test('the label of an order is the same for the same order and another for another one', () => {
  const text = fc.string({ unit: 'grapheme' })
  const orders = fc.record({
    id: fc.constantFrom('a', 'b'),
    image: fc.option(text),
    command: fc.array(text, { maxLength: 3 }),
    env: fc.dictionary(text, text, { maxKeys: 3 }),
    workingDir: text,
    resources: fc.record({ memoryBytes: fc.nat(), cpus: fc.nat() }, { requiredKeys: [] }),
    network: fc.constantFrom('shared' as const, 'none' as const),
  })
  const shuffled = (one: SandboxConfig): SandboxConfig => ({
    ...one,
    env: Object.fromEntries(Object.entries(one.env).reverse()),
    resources: Object.fromEntries(Object.entries(one.resources).reverse()),
  })
  fc.assert(
    fc.property(orders, orders, (a, b) => {
      expect(configHash(shuffled(a))).toBe(configHash(a))
      const plain = ({ id: _, ...rest }: SandboxConfig) => JSON.stringify(rest, sortedMembers)
      expect(configHash(a) === configHash(b)).toBe(plain(a) === plain(b))
    }),
  )
})

const sortedMembers = (_: string, value: unknown) =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value

test('labels tell no secret', () => {
  const labels = JSON.stringify(sandboxLabels('ledger', { ...order, env: { KEY: 'sesame' } }))
  expect(labels).not.toContain('sesame')
})
