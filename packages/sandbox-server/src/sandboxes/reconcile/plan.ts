import type { SandboxStatus } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage'
import type { Seen } from '../../backends/backend.ts'
import { placeText } from '../../network/endpoint.ts'

/**
 * From which status a sandbox may come into which. RUNNING is reached from STARTING alone: nothing runs before its agent
 * server has been asked.
 */
export const edges: Readonly<Record<SandboxStatus, readonly SandboxStatus[]>> = {
  STARTING: ['RUNNING', 'PAUSED', 'ERROR', 'MISSING'],
  RUNNING: ['STARTING', 'PAUSED', 'ERROR', 'MISSING'],
  PAUSED: ['STARTING', 'ERROR', 'MISSING'],
  ERROR: ['STARTING', 'PAUSED', 'MISSING'],
  MISSING: ['STARTING', 'PAUSED', 'ERROR'],
}

/** Epoch of one that was made before and is to be started again: whatever is there of it belongs to an earlier start. */
export const toBeStarted = ''

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
export interface Times {
  readonly now: number
  /** Since when it is known to be on its way. */
  readonly since: number
  /** How long that may take. */
  readonly graceMs: number
}

type Row = Pick<SandboxRow, 'wanted' | 'epoch' | 'addresses'> & { readonly status: SandboxStatus }

const rest: Step = { kind: 'rest' }
const mark = (status: SandboxStatus): Step => ({ kind: 'mark', status })

/**
 * The next step from what is wanted and what was seen, and from nothing else. A row that is undefined is of a sandbox that the
 * ledger does not know (the label is ours); `seen` undefined: nothing is there.
 */
export function plan(row: Row | undefined, seen: Seen | undefined, times: Times): Step {
  if (row === undefined) return seen === undefined ? rest : { kind: 'remove' }
  if (row.wanted === 'gone') return { kind: seen === undefined ? 'forget' : 'remove' }
  return row.wanted === 'paused' ? still(row, seen, times) : going(row, seen, times)
}

/** Wanted paused. */
function still({ status, epoch }: Row, seen: Seen | undefined, times: Times): Step {
  switch (seen?.state) {
    case undefined:
      // One that was never made has nothing that could be missing.
      return become(status, epoch === null && isUnmade(status) ? 'PAUSED' : 'MISSING')
    case 'starting':
      return status === 'STARTING' || status === 'RUNNING' ? { kind: 'wait', isLast: isLate(times) } : rest
    case 'running':
      return { kind: 'pause' }
    case 'paused':
    case 'stopped':
      // It has been made, so from now on it can be missing.
      if (epoch === null) return { kind: 'mark', status: 'PAUSED', epoch: toBeStarted }
      return become(status, 'PAUSED')
    case 'broken':
      return become(status, 'ERROR')
  }
}

function going(row: Row, seen: Seen | undefined, times: Times): Step {
  switch (row.status) {
    case 'STARTING':
      return starting(row, seen, times)
    case 'RUNNING':
      return running(row, seen)
    case 'PAUSED':
      return again(row)
    case 'ERROR':
      // It stays until somebody asks for it: nothing is started again in silence, and what nobody can reach stands still.
      if (seen === undefined) return mark('MISSING')
      return seen.state === 'running' ? { kind: 'pause' } : rest
    case 'MISSING':
      return missing(row, seen)
  }
}

/** Wanted running, on its way. An epoch of its own tells that the attempt was made. */
function starting({ epoch }: Row, seen: Seen | undefined, times: Times): Step {
  const isTried = epoch !== null && epoch !== toBeStarted
  switch (seen?.state) {
    case undefined:
      return epoch === null ? { kind: 'start' } : mark('MISSING')
    case 'starting':
      return { kind: 'wait', isLast: isLate(times) }
    case 'running':
      return seen.epoch === epoch
        ? { kind: 'probe', isLast: isLate(times) }
        : { kind: 'mark', status: 'STARTING', epoch: seen.epoch }
    case 'paused':
      return { kind: 'resume' }
    case 'stopped':
      return isTried ? mark('ERROR') : { kind: 'resume' }
    case 'broken':
      return isTried ? mark('ERROR') : { kind: 'start' }
  }
}

function running(row: Row, seen: Seen | undefined): Step {
  switch (seen?.state) {
    case undefined:
      return mark('MISSING')
    case 'starting':
      return rest
    case 'running':
      if (seen.epoch !== row.epoch) return { kind: 'mark', status: 'STARTING', epoch: seen.epoch }
      return placeText(seen) === row.addresses ? rest : mark('RUNNING')
    case 'paused':
      return again(row)
    case 'stopped':
    case 'broken':
      return mark('ERROR')
  }
}

/** What was taken for gone and is there after all. */
function missing(row: Row, seen: Seen | undefined): Step {
  if (seen === undefined) return rest
  if (seen.state === 'stopped' || seen.state === 'broken') return mark('ERROR')
  return again(row)
}

function again({ epoch }: Row): Step {
  return { kind: 'mark', status: 'STARTING', epoch: epoch === null ? null : toBeStarted }
}

function become(from: SandboxStatus, to: SandboxStatus): Step {
  return from === to ? rest : mark(to)
}

function isUnmade(status: SandboxStatus): boolean {
  return status === 'STARTING' || status === 'PAUSED'
}

function isLate({ now, since, graceMs }: Times): boolean {
  return now - since > graceMs
}
