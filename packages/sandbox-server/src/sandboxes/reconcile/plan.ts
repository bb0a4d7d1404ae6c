import type { SandboxStatus } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage/control-plane'
import type { ObservedSandbox } from '../../backends/backend.ts'
import { encodeEndpoint } from '../../network/endpoint.ts'

/** Epoch of a created sandbox that is to be started again: what is observed belongs to an earlier start. */
export const restartEpoch = ''

/** Epoch of one whose processes are to end first; then as `restartEpoch`. */
export const stopEpoch = 'stop'

export type Step =
  /** Nothing, until something changes. */
  | { readonly kind: 'idle' }
  /** Look again soon; `isLast`: it takes too long and is an ERROR. */
  | { readonly kind: 'wait'; readonly isLast: boolean }
  | { readonly kind: 'start' }
  | { readonly kind: 'resume' }
  | { readonly kind: 'pause' }
  | { readonly kind: 'stop' }
  | { readonly kind: 'remove' }
  /** Nothing is left of it. */
  | { readonly kind: 'deleteRow' }
  /** Ask its agent server; `isLast`: when it is not ready, that is an ERROR. */
  | { readonly kind: 'probe'; readonly isLast: boolean }
  | { readonly kind: 'setStatus'; readonly status: SandboxStatus; readonly epoch?: string | null }

type Row = Pick<SandboxRow, 'wanted' | 'epoch' | 'addresses'> & { readonly status: SandboxStatus }

const idle: Step = { kind: 'idle' }

/** `row` is undefined for an unknown sandbox, `observed` for a missing one. `isOverdue`: it takes long. */
export function plan(row: Row | undefined, observed: ObservedSandbox | undefined, isOverdue: boolean): Step {
  if (row === undefined) return observed === undefined ? idle : { kind: 'remove' }
  if (row.wanted === 'gone') return { kind: observed === undefined ? 'deleteRow' : 'remove' }
  if (row.wanted === 'archived')
    return observed === undefined ? setIfDifferent(row.status, 'MISSING') : { kind: 'remove' }
  return row.wanted === 'paused'
    ? planPaused(row, observed, isOverdue)
    : planRunning(row, observed, isOverdue)
}

function planPaused({ status, epoch }: Row, observed: ObservedSandbox | undefined, isOverdue: boolean): Step {
  switch (observed?.state) {
    case undefined:
      // Nothing can be missing before it was created.
      if (epoch === null && (status === 'STARTING' || status === 'PAUSED'))
        return setIfDifferent(status, 'PAUSED')
      return setIfDifferent(status, 'MISSING')
    case 'starting':
      if (status !== 'STARTING' && status !== 'RUNNING') return idle
      return { kind: 'wait', isLast: isOverdue }
    case 'running':
      return { kind: 'pause' }
    case 'paused':
    case 'stopped':
      // It was created, so it can be missing from now on.
      if (epoch === null) return setStatus('PAUSED', restartEpoch)
      return setIfDifferent(status, 'PAUSED')
    case 'broken':
      return setIfDifferent(status, 'ERROR')
  }
}

function planRunning(row: Row, observed: ObservedSandbox | undefined, isOverdue: boolean): Step {
  switch (row.status) {
    case 'STARTING':
      return planStarting(row, observed, isOverdue)
    case 'RUNNING':
      return planFromRunning(row, observed)
    case 'PAUSED':
      return restart(row)
    case 'ERROR':
      // It stays until a resume: nothing restarts silently, and what cannot be reached does not run.
      if (observed === undefined) return setStatus('MISSING')
      return observed.state === 'running' ? { kind: 'pause' } : idle
    case 'MISSING':
      return planFromMissing(row, observed)
  }
}

/** A separate epoch says that the attempt was made. */
function planStarting({ epoch }: Row, observed: ObservedSandbox | undefined, isOverdue: boolean): Step {
  const wasAttempted = epoch !== null && epoch !== restartEpoch && epoch !== stopEpoch
  switch (observed?.state) {
    case undefined:
      return epoch === null ? { kind: 'start' } : setStatus('MISSING')
    case 'starting':
      return { kind: 'wait', isLast: isOverdue }
    case 'running':
      if (epoch === stopEpoch) return { kind: 'stop' }
      return observed.epoch === epoch
        ? { kind: 'probe', isLast: isOverdue }
        : setStatus('STARTING', observed.epoch)
    case 'paused':
      return { kind: 'resume' }
    case 'stopped':
      return wasAttempted ? setStatus('ERROR') : { kind: 'resume' }
    case 'broken':
      return wasAttempted ? setStatus('ERROR') : { kind: 'start' }
  }
}

function planFromRunning(row: Row, observed: ObservedSandbox | undefined): Step {
  switch (observed?.state) {
    case undefined:
      return setStatus('MISSING')
    case 'starting':
      return idle
    case 'running':
      if (observed.epoch !== row.epoch) return setStatus('STARTING', observed.epoch)
      return encodeEndpoint(observed) === row.addresses ? idle : setStatus('RUNNING')
    case 'paused':
      return restart(row)
    case 'stopped':
    case 'broken':
      return setStatus('ERROR')
  }
}

function planFromMissing(row: Row, observed: ObservedSandbox | undefined): Step {
  if (observed === undefined) return idle
  if (observed.state === 'stopped' || observed.state === 'broken') return setStatus('ERROR')
  return restart(row)
}

function setStatus(status: SandboxStatus, epoch?: string | null): Step {
  return { kind: 'setStatus', status, ...(epoch !== undefined && { epoch }) }
}

function restart({ epoch }: Row): Step {
  return setStatus('STARTING', epoch === null ? null : restartEpoch)
}

function setIfDifferent(from: SandboxStatus, to: SandboxStatus): Step {
  return from === to ? idle : setStatus(to)
}
