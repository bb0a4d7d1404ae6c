import { stripVTControlCharacters } from 'node:util'
import type {
  CoreV1Event,
  V1ContainerStateTerminated,
  V1PersistentVolumeClaim,
  V1Pod,
} from '@kubernetes/client-node'
import { lastChars } from '@slipway/shared/text'
import type { ObservedSandbox } from '../backend.ts'
import { workingDirAnnotation } from './labels.ts'
import { isPaused } from './objects.ts'
import type { RemakeState } from './workload.ts'

/** What this process knows of a sandbox besides the answers of the API server. */
export interface InspectContext {
  readonly id: string
  /** A start of it runs in this process. */
  readonly isStarting: boolean
  /** The last start in this process, if it failed. */
  readonly failure: StartFailure | undefined
  /** Why its Pod went away, when this process has seen it. */
  readonly lastDetail: string | undefined
  /** Of a sandbox whose Pod is made again when it is missing. */
  readonly remade?: RemakeState | undefined
}

export interface StartFailure {
  readonly reason: string
  /** Differs for each failure. */
  readonly epoch: string
}

/** Without addresses and without the end of its output. */
export function toObservedSandbox(
  pod: V1Pod | undefined,
  volume: V1PersistentVolumeClaim | undefined,
  context: InspectContext,
): ObservedSandbox {
  const workingDir = volume?.metadata?.annotations?.[workingDirAnnotation]
  const base = { id: context.id, addresses: {}, workingDir }
  if (pod === undefined) return { ...base, ...stateWithoutPod(volume, context) }
  return { ...base, epoch: pod.metadata?.uid ?? '', ...stateOfPod(pod, volume, context) }
}

type State = Pick<ObservedSandbox, 'state' | 'detail'>

const pausedDetail = 'Its Pod was removed and its volume is kept: files stay, processes and memory do not.'

function stateWithoutPod(
  volume: V1PersistentVolumeClaim | undefined,
  { isStarting, failure, lastDetail, remade }: InspectContext,
): State & Pick<ObservedSandbox, 'epoch'> {
  if (volume?.metadata?.deletionTimestamp !== undefined)
    return { state: 'stopped', epoch: 'files', detail: 'Its volume is being removed.' }
  if (isStarting) return { state: 'starting', epoch: 'files' }
  if (failure !== undefined) return { state: 'broken', epoch: failure.epoch, detail: failure.reason }
  if (isPaused(volume)) return { state: 'paused', epoch: 'files', detail: pausedDetail }
  if (remade !== undefined) return { ...remade, epoch: 'files' }
  const why = lastDetail === undefined ? '' : `${lastDetail} `
  return { state: 'stopped', epoch: 'files', detail: `${why}Its Pod is missing; its files are.` }
}

function stateOfPod(
  pod: V1Pod,
  volume: V1PersistentVolumeClaim | undefined,
  { isStarting, remade }: InspectContext,
): State {
  const { metadata, status } = pod
  if (metadata?.deletionTimestamp !== undefined) {
    if (isPaused(volume)) return { state: 'paused', detail: pausedDetail }
    const isBack = isStarting || remade !== undefined
    return { state: isBack ? 'starting' : 'stopped', detail: removalDetail(pod) }
  }
  const container = status?.containerStatuses?.[0]?.state
  if (container?.terminated !== undefined || status?.phase === 'Failed' || status?.phase === 'Succeeded') {
    return { state: 'stopped', detail: endDetail(pod, container?.terminated) }
  }
  if (container?.running !== undefined && status?.podIP) return { state: 'running' }
  const waiting = container?.waiting
  if (waiting?.reason === 'InvalidImageName')
    return { state: 'broken', detail: `The name of its image is invalid: ${waiting.message ?? ''}` }
  return { state: 'starting', detail: pendingDetail(pod) }
}

/** Why a Pod goes away that was not removed by us. */
export function removalDetail({ status }: V1Pod): string {
  const disruption = status?.conditions?.find(
    ({ type, status }) => type === 'DisruptionTarget' && status === 'True',
  )
  if (disruption?.reason === 'EvictionByEvictionAPI') return 'Its node was drained: its Pod was evicted.'
  if (disruption !== undefined)
    return `Its Pod was removed from its node: ${disruption.message ?? disruption.reason}`
  return 'Its Pod was deleted by another program.'
}

function endDetail({ status }: V1Pod, terminated: V1ContainerStateTerminated | undefined): string {
  if (status?.reason === 'Evicted') return `Its node evicted it: ${status.message ?? 'resources are short'}`
  if (terminated === undefined)
    return `Its Pod has failed: ${status?.message ?? status?.reason ?? 'no reason is known'}`
  const { exitCode, reason, message } = terminated
  if (reason === 'OOMKilled') return 'It was killed because it used more memory than it is allowed.'
  if (reason === 'StartError' || reason === 'ContainerCannotRun')
    return `Its program could not be started: ${message ?? `exit code ${exitCode}`}`
  const name = signals[exitCode - 128]
  return `Its process ended with exit code ${exitCode}${name === undefined ? '' : ` (signal SIG${name})`}.`
}

const signals: Readonly<Record<number, string>> = { 6: 'ABRT', 9: 'KILL', 11: 'SEGV', 15: 'TERM' }

/** Why a Pod does not run yet, as far as its status says it. */
function pendingDetail({ spec, status }: V1Pod): string | undefined {
  const unscheduled = status?.conditions?.find(
    ({ type, status }) => type === 'PodScheduled' && status === 'False',
  )
  if (unscheduled !== undefined)
    return `No node of the cluster takes it: ${unscheduled.message ?? unscheduled.reason}`
  const waiting = status?.containerStatuses?.[0]?.state?.waiting
  const message = waiting?.message ?? ''
  switch (waiting?.reason) {
    case 'ErrImagePull':
    case 'ImagePullBackOff':
    case 'ErrImageNeverPull':
    case 'RegistryUnavailable':
      return `Its image ${spec?.containers[0]?.image} cannot be pulled: ${message}`
    case 'CreateContainerConfigError':
      return `Its container cannot be configured: ${message}`
    case 'CreateContainerError':
    case 'RunContainerError':
      return `Its container cannot be started: ${message}`
    default:
      return undefined
  }
}

const meanings: Readonly<Record<string, string>> = {
  FailedMount: 'Its volume cannot be mounted',
  FailedAttachVolume: 'Its volume cannot be attached to the node',
  FailedScheduling: 'No node of the cluster takes it',
  FailedCreatePodSandBox: 'The node cannot set up its Pod',
  ProvisioningFailed: 'Its volume cannot be made',
  FailedBinding: 'Its volume cannot be made',
  Failed: 'Its container cannot be started',
}

/** The newest warning of a Pod that starts, or of its volume. */
export function eventDetail(events: readonly CoreV1Event[], sinceMs: number): string | undefined {
  const known = events
    .filter(({ type, reason }) => type !== 'Normal' || reason === 'FailedBinding')
    .map((event) => ({ event, atMs: timeOf(event) }))
    .filter(({ event, atMs }) => meanings[event.reason ?? ''] !== undefined && atMs >= sinceMs)
    .sort((a, b) => b.atMs - a.atMs)[0]?.event
  return known === undefined ? undefined : `${meanings[known.reason ?? '']}: ${known.message ?? ''}`
}

function timeOf({ lastTimestamp, eventTime, metadata }: CoreV1Event): number {
  return new Date(lastTimestamp ?? eventTime ?? metadata.creationTimestamp ?? 0).getTime()
}

/** The end of an output as plain text. */
export function plainOutput(text: string, maxChars = 4_000): string {
  const plain = stripVTControlCharacters(text)
    .replace(/\r+\n/g, '\n')
    .replace(/[^\P{C}\n\t]/gu, '')
  return lastChars(plain, maxChars).trim()
}
