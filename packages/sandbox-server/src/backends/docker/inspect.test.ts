import type { ContainerInspectInfo } from 'dockerode'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeLastLines, type InspectContext, observedFromVolume, toObservedSandbox } from './inspect.ts'

const idle: InspectContext = { id: 'one', isStarting: false, failure: undefined }
const failed: InspectContext = { ...idle, failure: { reason: 'no such image', epoch: 'failed-1' } }

/** The members that are looked at. */
function container(state: Partial<ContainerInspectInfo['State']>): ContainerInspectInfo {
  const inspected = {
    Id: 'c'.repeat(64),
    State: {
      Status: 'running',
      Running: false,
      Paused: false,
      Restarting: false,
      OOMKilled: false,
      ExitCode: 0,
      Error: '',
      StartedAt: '2026-01-01T00:00:00Z',
      ...state,
    },
    HostConfig: { Memory: 0 },
    Config: { Labels: { 'dev.slipway.working-dir': '/workspace/project' } },
    NetworkSettings: { Ports: { '8000/tcp': [{ HostIp: '127.0.0.1', HostPort: '4711' }], '8011/tcp': null } },
  }
  return inspected as unknown as ContainerInspectInfo
}

test.each([
  [{ Status: 'running', Running: true }, idle, 'running'],
  [{ Status: 'running', Running: true, Paused: true }, idle, 'paused'],
  [{ Status: 'paused', Running: false, Paused: true }, idle, 'paused'],
  [{ Status: 'paused', Running: true, Paused: false }, idle, 'paused'],
  [{ Status: 'restarting', Running: true, Restarting: true }, idle, 'starting'],
  [{ Status: 'created' }, { ...idle, isStarting: true }, 'starting'],
  [{ Status: 'exited' }, { ...idle, isStarting: true }, 'starting'],
  [{ Status: 'created' }, idle, 'stopped'],
  [{ Status: 'configured' }, idle, 'stopped'],
  [{ Status: 'created', Error: 'no such program', ExitCode: 127 }, idle, 'broken'],
  [{ Status: 'created' }, failed, 'broken'],
  [{ Status: 'exited' }, idle, 'stopped'],
  [{ Status: 'exited' }, failed, 'stopped'],
  [{ Status: 'stopped' }, idle, 'stopped'],
  [{ Status: 'dead' }, idle, 'stopped'],
  [{ Status: 'removing' }, idle, 'stopped'],
] as const)('%j is seen as %s', (state, context, expected) => {
  expect(toObservedSandbox(container(state), context).state).toBe(expected)
})

test('what moves has addresses, and what does not has none', () => {
  const addresses = { AGENT_SERVER: 'http://127.0.0.1:4711' }
  expect(toObservedSandbox(container({ Running: true }), idle)).toEqual({
    id: 'one',
    state: 'running',
    epoch: `${'c'.repeat(16)}@2026-01-01T00:00:00Z`,
    addresses,
    workingDir: '/workspace/project',
  })
  expect(toObservedSandbox(container({ Running: true, Paused: true }), idle).addresses).toEqual(addresses)
  // Podman still reports the ports of an ended container.
  expect(toObservedSandbox(container({ Status: 'exited' }), idle).addresses).toEqual({})
})

test('the detail says how it ended', () => {
  const detail = (state: Partial<ContainerInspectInfo['State']>) =>
    toObservedSandbox(container(state), idle).detail
  expect(detail({ Status: 'exited', ExitCode: 3 })).toBe('Its process ended with exit code 3.')
  expect(detail({ Status: 'exited', ExitCode: 137 })).toBe(
    'Its process ended with exit code 137 (signal SIGKILL).',
  )
  expect(detail({ Status: 'exited', ExitCode: 137, OOMKilled: true })).toContain(
    'more memory than it is allowed',
  )
  expect(detail({ Status: 'created', Error: 'no such program' })).toContain('no such program')
  expect(detail({ Running: true })).toBeUndefined()
})

test('without a container it is what this process knows of it, and stopped otherwise', () => {
  expect(observedFromVolume(idle)).toMatchObject({ state: 'stopped', addresses: {} })
  expect(observedFromVolume({ ...idle, isStarting: true })).toMatchObject({ state: 'starting' })
  expect(observedFromVolume(failed)).toMatchObject({
    state: 'broken',
    detail: 'no such image',
    epoch: 'failed-1',
  })
})

function frame(text: string | Uint8Array, stream = 1): Buffer {
  const bytes = Buffer.from(text)
  const header = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0])
  header.writeUInt32BE(bytes.length, 4)
  return Buffer.concat([header, bytes])
}

test('the last lines are joined from both streams, without what moves a terminal', () => {
  const frames = [
    frame('\u001b[1;31mred\u001b[0m\r\n'),
    frame('two\u0007\n', 2),
    frame('\u001b]0;title\u0007three\u0000\n\n'),
  ]
  expect(decodeLastLines(Buffer.concat(frames))).toBe('red\ntwo\nthree')
  expect(decodeLastLines(Buffer.alloc(0))).toBe('')
  expect(decodeLastLines(frame('half of it').subarray(0, 12))).toBe('half')
  const many = Array.from({ length: 100 }, (_, index) => frame(`line ${index}\n`))
  expect(decodeLastLines(Buffer.concat(many)).split('\n')).toHaveLength(20)
  expect(decodeLastLines(frame(`😀${'x'.repeat(3_999)}`))).toBe('x'.repeat(3_999))
  expect(decodeLastLines(frame(Buffer.from('ü'.repeat(3)).subarray(0, 5)))).toBe('üü�')
})

test('whatever it printed, the last lines are short and plain', () => {
  const printed = fc.array(fc.oneof(fc.string({ unit: 'binary' }), fc.uint8Array({ maxLength: 5_000 })))
  fc.assert(
    fc.property(printed, fc.nat(40), (parts, cut) => {
      const bytes = Buffer.concat(parts.map((part) => frame(part)))
      const text = decodeLastLines(bytes.subarray(0, Math.max(0, bytes.length - cut)))
      expect(text.length).toBeLessThanOrEqual(4_000)
      expect(text).not.toMatch(/[^\P{C}\n\t]/u)
    }),
  )
})
