import { stripVTControlCharacters } from 'node:util'
import { lastChars } from '@slipway/shared/text'
import type { ContainerInspectInfo } from 'dockerode'
import type { ObservedSandbox } from '../backend.ts'
import { containerPorts } from './container-options.ts'
import { workingDirLabel } from './labels.ts'

/** What this process knows of a container besides the engine's answer. */
export interface InspectContext {
  readonly id: string
  /** A start of it runs in this process. */
  readonly isStarting: boolean
  /** The last start in this process, if it failed. */
  readonly failure: StartFailure | undefined
}

export interface StartFailure {
  readonly reason: string
  /** Differs for each failure. */
  readonly epoch: string
}

/** Without the end of its output. */
export function toObservedSandbox(container: ContainerInspectInfo, context: InspectContext): ObservedSandbox {
  const state = toState(container, context)
  const detail = describeState(container, state, context)
  const workingDir = container.Config.Labels?.[workingDirLabel]
  return {
    id: context.id,
    state,
    epoch: state === 'broken' && context.failure ? context.failure.epoch : containerEpoch(container),
    addresses: state === 'running' || state === 'paused' ? publishedAddresses(container) : {},
    workingDir,
    detail,
  }
}

/** A sandbox with a volume and without a container. */
export function observedFromVolume({ id, isStarting, failure }: InspectContext): ObservedSandbox {
  const base = { id, epoch: 'files', addresses: {} }
  if (isStarting) return { ...base, state: 'starting' }
  if (failure !== undefined) {
    return { ...base, epoch: failure.epoch, state: 'broken', detail: failure.reason }
  }
  return { ...base, state: 'stopped', detail: 'Its container is missing; its files are.' }
}

/** A container that was interrupted between creation and start is `stopped`: the next start continues it. */
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
  // Not every engine reports the reason.
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

function publishedAddresses(container: ContainerInspectInfo): Record<string, string> {
  const found = Object.entries(containerPorts).flatMap(([name, port]) => {
    const hostPort = container.NetworkSettings.Ports?.[`${port}/tcp`]?.[0]?.HostPort
    return hostPort ? [[name, `http://127.0.0.1:${hostPort}`] as const] : []
  })
  return Object.fromEntries(found)
}

const headerBytes = 8
const maxLines = 20
const maxCharacters = 4_000

/** The end of an output from frames of the engine, as plain text. */
export function decodeLastLines(frames: Buffer): string {
  const text = decodeOutput(frames)
  return lastChars(text.split('\n').slice(-maxLines).join('\n'), maxCharacters).trim()
}

/** An output from frames of the engine (stream, three zeros, length, bytes), as plain text. */
export function decodeOutput(frames: Buffer): string {
  const parts: Buffer[] = []
  let at = 0
  while (at + headerBytes <= frames.length) {
    const end = at + headerBytes + frames.readUInt32BE(at + 4)
    parts.push(frames.subarray(at + headerBytes, end))
    at = end
  }
  return stripVTControlCharacters(Buffer.concat(parts).toString())
    .replace(/\r+\n/g, '\n')
    .replace(/[^\P{C}\n\t]/gu, '')
    .trimEnd()
}
