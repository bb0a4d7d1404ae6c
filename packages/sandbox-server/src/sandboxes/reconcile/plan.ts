import type { SandboxStatus } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage'
import type { ObservedSandbox } from '../../backends/backend.ts'
import { encodeEndpoint } from '../../network/endpoint.ts'

/** Epoch of one that was made before and is to be started again: whatever is there of it belongs to an earlier start. */
export const restartEpoch = ''

/** What is to be done next about a sandbox. */
export type Step =
  /** Nothing, until something changes. */
  | { readonly kind: 'rest' }
  /** Look again soon; with `isLast` it takes too long and is an ERROR. */
  | { readonly kind: 'wait'; readonly isLast: boolean }
  | { readonly kind: 'start' }
  | { readonly kind: 'resume' }
  | { readonly kind: 'pause' }
  | { readonly kind: 'remove' }
  /** Nothing is left of it: remove its row. */
  | { readonly kind: 'forget' }
  /** Ask its agent server; with `isLast` an answer that is not good is an ERROR. */
  | { readonly kind: 'probe'; readonly isLast: boolean }
  /** Write down what was seen. */
  | { readonly kind: 'mark'; readonly status: SandboxStatus; readonly epoch?: string | null }

/** Moments in milliseconds. */
export interface StepTiming {
  readonly now: number
  /** Since when it is known to be on its way. */
  readonly since: number
  /** How long that may take. */
  readonly graceMs: number
}

type Row = Pick<SandboxRow, 'wanted' | 'epoch' | 'addresses'> & { readonly status: SandboxStatus }

const restStep: Step = { kind: 'rest' }
const markStatus = (status: SandboxStatus): Step => ({ kind: 'mark', status })

/**
 * The next step from what is wanted and what was seen, and from nothing else. A row that is undefined is of a sandbox that the
 * ledger does not know (the label is ours); `seen` undefined: nothing is there.
 */
export function plan(row: Row | undefined, observed: ObservedSandbox | undefined, times: StepTiming): Step {
  if (row === undefined) return observed === undefined ? restStep : { kind: 'remove' }
  if (row.wanted === 'gone') return { kind: observed === undefined ? 'forget' : 'remove' }
  return row.wanted === 'paused' ? planPaused(row, observed, times) : planRunning(row, observed, times)
}

/** Wanted paused. */
function planPaused({ status, epoch }: Row, observed: ObservedSandbox | undefined, times: StepTiming): Step {
  switch (observed?.state) {
    case undefined:
      // One that was never made has nothing that could be missing.
      return markUnlessSame(status, epoch === null && isNotCreated(status) ? 'PAUSED' : 'MISSING')
    case 'starting':
      return status === 'STARTING' || status === 'RUNNING'
        ? { kind: 'wait', isLast: isOverdue(times) }
        : restStep
    case 'running':
      return { kind: 'pause' }
    case 'paused':
    case 'stopped':
      // It has been made, so from now on it can be missing.
      if (epoch === null) return { kind: 'mark', status: 'PAUSED', epoch: restartEpoch }
      return markUnlessSame(status, 'PAUSED')
    case 'broken':
      return markUnlessSame(status, 'ERROR')
  }
}

function planRunning(row: Row, observed: ObservedSandbox | undefined, times: StepTiming): Step {
  switch (row.status) {
    case 'STARTING':
      return planStarting(row, observed, times)
    case 'RUNNING':
      return planFromRunning(row, observed)
    case 'PAUSED':
      return markRestart(row)
    case 'ERROR':
      // It stays until somebody asks for it: nothing is started again in silence, and what nobody can reach stands still.
      if (observed === undefined) return markStatus('MISSING')
      return observed.state === 'running' ? { kind: 'pause' } : restStep
    case 'MISSING':
      return planFromMissing(row, observed)
  }
}

/** Wanted running, on its way. An epoch of its own tells that the attempt was made. */
function planStarting({ epoch }: Row, observed: ObservedSandbox | undefined, times: StepTiming): Step {
  const wasAttempted = epoch !== null && epoch !== restartEpoch
  switch (observed?.state) {
    case undefined:
      return epoch === null ? { kind: 'start' } : markStatus('MISSING')
    case 'starting':
      return { kind: 'wait', isLast: isOverdue(times) }
    case 'running':
      return observed.epoch === epoch
        ? { kind: 'probe', isLast: isOverdue(times) }
        : { kind: 'mark', status: 'STARTING', epoch: observed.epoch }
    case 'paused':
      return { kind: 'resume' }
    case 'stopped':
      return wasAttempted ? markStatus('ERROR') : { kind: 'resume' }
    case 'broken':
      return wasAttempted ? markStatus('ERROR') : { kind: 'start' }
  }
}

function planFromRunning(row: Row, observed: ObservedSandbox | undefined): Step {
  switch (observed?.state) {
    case undefined:
      return markStatus('MISSING')
    case 'starting':
      return restStep
    case 'running':
      if (observed.epoch !== row.epoch) return { kind: 'mark', status: 'STARTING', epoch: observed.epoch }
      return encodeEndpoint(observed) === row.addresses ? restStep : markStatus('RUNNING')
    case 'paused':
      return markRestart(row)
    case 'stopped':
    case 'broken':
      return markStatus('ERROR')
  }
}

/** What was taken for gone and is there after all. */
function planFromMissing(row: Row, observed: ObservedSandbox | undefined): Step {
  if (observed === undefined) return restStep
  if (observed.state === 'stopped' || observed.state === 'broken') return markStatus('ERROR')
  return markRestart(row)
}

function markRestart({ epoch }: Row): Step {
  return { kind: 'mark', status: 'STARTING', epoch: epoch === null ? null : restartEpoch }
}

function markUnlessSame(from: SandboxStatus, to: SandboxStatus): Step {
  return from === to ? restStep : markStatus(to)
}

function isNotCreated(status: SandboxStatus): boolean {
  return status === 'STARTING' || status === 'PAUSED'
}

function isOverdue({ now, since, graceMs }: StepTiming): boolean {
  return now - since > graceMs
}
