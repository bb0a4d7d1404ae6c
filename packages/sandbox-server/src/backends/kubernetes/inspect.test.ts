import type { CoreV1Event, V1Pod, V1PodStatus } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { toRemakeState } from './agent-sandboxes.ts'
import { eventDetail, toObservedSandbox } from './inspect.ts'
import { pausedAnnotation } from './labels.ts'

const context = { id: 'a', isStarting: false, failure: undefined, lastDetail: undefined }
const podWith = (status: V1PodStatus, metadata = {}): V1Pod => ({
  metadata: { name: 'p', uid: 'u-1', ...metadata },
  spec: { containers: [{ name: 'agent', image: 'x:1' }] },
  status,
})
const waiting = (reason: string, message = 'because') =>
  podWith({
    phase: 'Pending',
    containerStatuses: [
      ...[{ name: 'agent', image: '', imageID: '', ready: false, restartCount: 0 }].map((one) => ({
        ...one,
        state: { waiting: { reason, message } },
      })),
    ],
  })
const observe = (pod: V1Pod | undefined, annotations = {}) =>
  toObservedSandbox(pod, { metadata: { annotations } }, context)

test('a Pod that cannot start says why in plain words', () => {
  expect(observe(waiting('ImagePullBackOff'))).toMatchObject({
    state: 'starting',
    detail: 'Its image x:1 cannot be pulled: because',
  })
  expect(observe(waiting('CreateContainerConfigError')).detail).toContain('cannot be configured')
  expect(observe(waiting('ContainerCreating')).detail).toBeUndefined()
  expect(observe(waiting('InvalidImageName')).state).toBe('broken')
  const conditions = [{ type: 'PodScheduled', status: 'False', message: '0/3 nodes are available' }]
  expect(observe(podWith({ phase: 'Pending', conditions })).detail).toContain('0/3 nodes are available')
})

test('what has ended says how, and a drained node is told from a deletion', () => {
  const ended = (terminated: { exitCode: number; reason?: string; message?: string }) =>
    observe(
      podWith({
        phase: 'Failed',
        containerStatuses: [
          { name: 'agent', image: '', imageID: '', ready: false, restartCount: 0, state: { terminated } },
        ],
      }),
    )
  expect(ended({ exitCode: 137 }).detail).toContain('exit code 137 (signal SIGKILL)')
  expect(ended({ exitCode: 137, reason: 'OOMKilled' }).detail).toContain('more memory than it is allowed')
  expect(ended({ exitCode: 128, reason: 'StartError', message: 'no such file' }).detail).toContain(
    'no such file',
  )
  const evicted = podWith({ phase: 'Failed', reason: 'Evicted', message: 'low on memory' })
  expect(observe(evicted)).toMatchObject({ state: 'stopped', detail: 'Its node evicted it: low on memory' })
  const conditions = [{ type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI' }]
  const leaving = { deletionTimestamp: new Date() }
  expect(observe(podWith({ conditions }, leaving)).detail).toContain('node was drained')
  expect(observe(podWith({}, leaving)).detail).toContain('deleted by another program')
})

test('a volume alone is paused only when we have paused it', () => {
  expect(observe(undefined)).toMatchObject({ state: 'stopped' })
  expect(observe(undefined, { [pausedAnnotation]: 'x' })).toMatchObject({ state: 'paused' })
  expect(toObservedSandbox(undefined, undefined, { ...context, isStarting: true }).state).toBe('starting')
})

test('the newest warning about a Pod is shown, and no older one', () => {
  const event = (reason: string, second: number, type = 'Warning'): CoreV1Event => ({
    metadata: {},
    involvedObject: {},
    type,
    reason,
    message: `at ${second}`,
    lastTimestamp: new Date(second * 1000),
  })
  const events = [event('FailedMount', 5), event('FailedScheduling', 3), event('Pulled', 9, 'Normal')]
  expect(eventDetail(events, 1_000)).toBe('Its volume cannot be mounted: at 5')
  expect(eventDetail(events, 6_000)).toBeUndefined()
})

test('a Pod that a controller makes again is awaited, and what the controller cannot make is broken', () => {
  const ready = (reason: string, message: string, observedGeneration = 2) =>
    toRemakeState({
      metadata: { generation: 2 },
      status: { conditions: [{ type: 'Ready', reason, message, observedGeneration }] },
    })
  const remade = ready('DependenciesNotReady', 'Pod does not exist')
  expect(remade.state).toBe('starting')
  expect(toRemakeState(undefined).detail).toContain('has not looked at its Sandbox')
  const error = 'Error seen: pods "a" is forbidden: exceeded quota: none'
  expect(ready('ReconcilerError', error)).toEqual({ state: 'broken', detail: expect.stringContaining(error) })
  expect(ready('ReconcilerError', error, 1).state).toBe('starting')
  expect(ready('ReconcilerError', 'Error seen: connection refused').state).toBe('starting')

  const leaving = podWith({}, { deletionTimestamp: new Date() })
  for (const pod of [undefined, leaving])
    expect(toObservedSandbox(pod, undefined, { ...context, remade }).state).toBe('starting')
  const volume = { metadata: { annotations: { [pausedAnnotation]: 'x' } } }
  for (const pod of [undefined, leaving])
    expect(toObservedSandbox(pod, volume, { ...context, remade }).state).toBe('paused')
})
