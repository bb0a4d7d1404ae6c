import { expect, test } from 'vitest'
import { findStatusReason } from './status-reason.ts'

const box = { id: 'sb-1', status: 'ERROR', spec: { image: 'registry.example/agent:1' } } as const
const again = 'It cannot continue and is tried again:'
const late = 'The agent server was not ready after 120 s:'
const node = 'No node of the cluster takes it: 0/3 nodes are available:'

/** Details as backends, engines and programs give them, by the code and the command that they stand for. */
const details: readonly (readonly [backend: string, detail: string, code: string, next: string])[] = [
  [
    'docker',
    'The image a/b:1 is missing: build it with `npm run image` or pull it. Pulling it failed: 404',
    'image_missing',
    'docker pull registry.example/agent:1',
  ],
  ['docker', 'The image a/b:1 cannot be used: no such daemon', 'image_missing', 'docker pull'],
  [
    'kubernetes',
    'Its image a/b:1 cannot be pulled: Back-off pulling image "a/b:1"',
    'image_missing',
    'kubectl describe pods -l slipway.dev/sandbox=sb-1',
  ],
  [
    'kubernetes',
    'Its container cannot be started: Failed to pull image "a/b:1": not found',
    'image_missing',
    'kubectl describe pods',
  ],
  [
    'kubernetes',
    'The name of its image is invalid: invalid reference format',
    'image_missing',
    'kubectl describe pods',
  ],
  ['process', `${late} it does not accept its session key. `, 'key_refused', 'slipway sandbox resume sb-1'],
  [
    'docker',
    'What it was made from is sealed with a key that this server does not have.',
    'key_refused',
    'slipway sandbox resume sb-1',
  ],
  ['process', 'It ended with exit code 1:\ndd: error writing: No space left on device', 'disk_full', 'df -h'],
  [
    'docker',
    'The container engine could not start it: write /x: no space left on device',
    'disk_full',
    'docker system df',
  ],
  [
    'process',
    'Its disk cannot be mounted: mount: /x: failed to setup loop device',
    'volume_unavailable',
    'slipway doctor',
  ],
  [
    'docker',
    'The volume slipway-1 exists and does not belong to this server.',
    'volume_unavailable',
    'docker volume ls',
  ],
  [
    'kubernetes',
    'Its volume cannot be mounted: MountVolume.SetUp failed',
    'volume_unavailable',
    'kubectl describe pvc -l slipway.dev/sandbox=sb-1',
  ],
  [
    'kubernetes',
    `${node} pod has unbound immediate PersistentVolumeClaims.`,
    'volume_unavailable',
    'kubectl describe pvc',
  ],
  ['kubernetes', `${node} 3 Insufficient memory.`, 'unschedulable', 'kubectl describe pods'],
  [
    'kubernetes',
    'Its node evicted it: The node was low on resource: memory.',
    'unschedulable',
    'kubectl describe pods',
  ],
  [
    'process',
    'It was ended by SIGKILL after it had used up its memory (1 processes ended for that)',
    'out_of_memory',
    'slipway sandbox resume sb-1',
  ],
  [
    'docker',
    'It was killed because it used more memory than it is allowed.',
    'out_of_memory',
    'slipway sandbox resume sb-1',
  ],
  [
    'process',
    'It ended with exit code 1:\nError: listen EADDRINUSE: address already in use',
    'port_taken',
    'slipway sandbox resume sb-1',
  ],
  [
    'docker',
    'The container engine could not start it: Bind for 127.0.0.1:8000 failed: port is already allocated',
    'port_taken',
    'docker ps',
  ],
  ...['process', 'docker', 'kubernetes'].map(
    (backend) =>
      [backend, `${late} it does not answer. `, 'not_answering', 'slipway sandbox logs sb-1'] as const,
  ),
  ['docker', `${again} the backend docker is not configured`, 'backend_missing', 'slipway sandbox rm sb-1'],
  [
    'docker',
    `${again} No container engine was found at /var/run/docker.sock: start Docker or Podman, or name its socket`,
    'backend_unavailable',
    'docker info',
  ],
  ['docker', `${again} connect ECONNREFUSED /run/podman/podman.sock`, 'backend_unavailable', 'docker info'],
  ['kubernetes', `${again} connect ECONNREFUSED 10.0.0.1:443`, 'backend_unavailable', 'kubectl cluster-info'],
  ['process', `${again} EACCES: permission denied, mkdir '/x'`, 'backend_unavailable', 'slipway doctor'],
  [
    'process',
    'It ended with exit code 127:\n/nothing: not found',
    'command_missing',
    'slipway sandbox rm sb-1',
  ],
  [
    'docker',
    'The container engine could not start it: exec: "/nothing": stat /nothing: no such file or directory',
    'command_missing',
    'slipway sandbox rm sb-1',
  ],
  ['process', 'It ended with exit code 1', 'ended', 'slipway sandbox resume sb-1'],
]

test.each(details)('%s: %s', (backend, detail, code, next) => {
  const reason = findStatusReason({ ...box, backend, detail })
  expect(reason?.code).toBe(code)
  expect(reason?.next_command.startsWith(next), reason?.next_command).toBe(true)
  expect(reason?.message).toMatch(/^[A-Z].*\.$/)
})

test('one that waits says why, and one that runs or rests does not', () => {
  const reason = (status: 'STARTING' | 'RUNNING' | 'PAUSED', detail: string | null) =>
    findStatusReason({ ...box, status, backend: 'kubernetes', detail })?.code
  expect(reason('STARTING', `${node} 3 Insufficient memory.`)).toBe('unschedulable')
  expect(reason('STARTING', null)).toBeUndefined()
  expect(reason('RUNNING', 'port is already allocated')).toBeUndefined()
  expect(reason('RUNNING', 'Its agent server does not answer.')).toBe('not_answering')
  const silent = {
    ...box,
    status: 'RUNNING',
    backend: 'docker',
    detail: 'Its agent server does not answer.',
  } as const
  expect(findStatusReason(silent)?.next_command).toBe('slipway sandbox restart sb-1')
  expect(reason('PAUSED', 'Its Pod was removed and its volume is kept.')).toBeUndefined()
})

test('a sandbox whose spec is gone, or of which nothing is left, says so unless there is a closer cause', () => {
  const reason = (status: 'ERROR' | 'MISSING', spec: object | undefined, detail: string) =>
    findStatusReason({ id: 'sb-1', status, spec, backend: 'process', detail })
  expect(reason('ERROR', undefined, 'It ended with exit code 1')).toMatchObject({ code: 'spec_missing' })
  expect(reason('ERROR', undefined, 'It used up its memory')?.code).toBe('out_of_memory')
  expect(reason('MISSING', {}, 'Nothing is left of it.')).toMatchObject({
    code: 'missing',
    next_command: 'slipway sandbox rm sb-1',
  })
  expect(reason('MISSING', {}, 'It was archived: its files are deleted')?.code).toBe('archived')
})

test('nothing of a detail is repeated, which may be of a program', () => {
  const reason = findStatusReason({ ...box, backend: 'process', detail: 'sk-secret: ENOSPC; rm -rf /' })
  expect(JSON.stringify(reason)).not.toMatch(/sk-secret|rm -rf/)
})
