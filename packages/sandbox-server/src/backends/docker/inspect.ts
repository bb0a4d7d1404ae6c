import type { ContainerInspectInfo } from 'dockerode'
import type { ObservedSandbox } from '../backend.ts'
import { containerPorts } from './container-options.ts'
import { workingDirLabel } from './labels.ts'

/** What is known of a container besides what the engine tells of it. */
export interface InspectContext {
  readonly id: string
  readonly publishHost: string
  /** It is being made by us at this moment. */
  readonly isStarting: boolean
  /** Why its last start failed, as far as this process knows. */
  readonly failure: StartFailure | undefined
}

export interface StartFailure {
  readonly reason: string
  /** Another text for each failure. */
  readonly epoch: string
}

/** A container in the backend's words; without the end of what it printed. */
export function toObservedSandbox(container: ContainerInspectInfo, context: InspectContext): ObservedSandbox {
  const state = toState(container, context)
  const detail = describeState(container, state, context)
  const workingDir = container.Config.Labels?.[workingDirLabel]
  return {
    id: context.id,
    state,
    epoch: state === 'broken' && context.failure ? context.failure.epoch : containerEpoch(container),
    addresses:
      state === 'running' || state === 'paused' ? publishedAddresses(container, context.publishHost) : {},
    ...(workingDir === undefined ? {} : { workingDir }),
    ...(detail === undefined ? {} : { detail }),
  }
}

/** What is there of a sandbox whose files are there and whose container is not. */
export function observedFromVolume({ id, isStarting, failure }: InspectContext): ObservedSandbox {
  const base = { id, epoch: 'files', addresses: {} }
  if (isStarting) return { ...base, state: 'starting' }
  if (failure !== undefined) {
    return { ...base, epoch: failure.epoch, state: 'broken', detail: failure.reason }
  }
  return { ...base, state: 'stopped', detail: 'Its container is not there; its files are.' }
}

/**
 * Docker and Podman have different words for what has not run yet. One that was cut off between being made and started is
 * `stopped`: a start goes on with it.
 */
function toState({ State: state }: ContainerInspectInfo, context: InspectContext): ObservedSandbox['state'] {
  if (state.Paused || state.Status === 'paused') return 'paused'
  if (state.Running && !state.Restarting) return 'running'
  if (context.isStarting) return 'starting'
  if (state.Status === 'restarting') return 'starting'
  const hasFailed = context.failure !== undefined || state.Error !== ''
  return neverStartedStatuses.has(state.Status) && hasFailed ? 'broken' : 'stopped'
}

const neverStartedStatuses: ReadonlySet<string> = new Set(['created', 'configured', 'initialized'])

function describeState(
  { State: state, HostConfig }: ContainerInspectInfo,
  observedState: ObservedSandbox['state'],
  { failure }: InspectContext,
): string | undefined {
  if (observedState === 'broken')
    return failure?.reason ?? `The container engine could not start it: ${state.Error}`
  if (observedState !== 'stopped') return undefined
  if (neverStartedStatuses.has(state.Status)) return 'It was made and not started.'
  if (state.OOMKilled) return 'It was killed because it used more memory than it is allowed.'
  const error = state.Error === '' ? '' : ` ${state.Error}`
  // Not every engine notices why.
  const guess =
    state.ExitCode === 137 && HostConfig.Memory ? ' It may have used more memory than it is allowed.' : ''
  return `Its process ended with exit code ${state.ExitCode}${signalName(state.ExitCode)}.${guess}${error}`
}

const signals: Readonly<Record<number, string>> = { 6: 'ABRT', 9: 'KILL', 11: 'SEGV', 15: 'TERM' }

function signalName(exitCode: number): string {
  const name = signals[exitCode - 128]
  return name === undefined ? '' : ` (signal SIG${name})`
}

const containerEpoch = ({ Id, State }: ContainerInspectInfo) => `${Id.slice(0, 16)}@${State.StartedAt}`

function publishedAddresses(container: ContainerInspectInfo, publishHost: string): Record<string, string> {
  const host = publishHost === '0.0.0.0' ? '127.0.0.1' : publishHost
  const found = Object.entries(containerPorts).flatMap(([name, port]) => {
    const hostPort = container.NetworkSettings.Ports?.[`${port}/tcp`]?.[0]?.HostPort
    return hostPort ? [[name, `http://${host}:${hostPort}`] as const] : []
  })
  return Object.fromEntries(found)
}

const headerBytes = 8
const maxLines = 20
const maxCharacters = 4_000

/**
 * The end of what a container printed, from the engine's frames: stream, three zeros, length, bytes. Without what moves a
 * terminal's cursor or colours its text.
 */
export function decodeLastLines(frames: Buffer): string {
  const parts: Buffer[] = []
  let at = 0
  while (at + headerBytes <= frames.length) {
    const end = at + headerBytes + frames.readUInt32BE(at + 4)
    parts.push(frames.subarray(at + headerBytes, end))
    at = end
  }
  const lines = stripControlCharacters(Buffer.concat(parts).toString()).trimEnd().split('\n')
  // A character of two halves may have been cut.
  return lines
    .slice(-maxLines)
    .join('\n')
    .slice(-maxCharacters)
    .replace(/^[\udc00-\udfff]/, '')
    .trim()
}

function stripControlCharacters(text: string): string {
  return (
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is removed here.
      .replace(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g, '')
      .replace(/\r+\n/g, '\n')
      .replace(/[^\P{C}\n\t]/gu, '')
  )
}
