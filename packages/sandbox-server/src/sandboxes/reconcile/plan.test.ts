import { type SandboxStatus, sandboxStatus } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage/control-plane'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ObservedSandbox } from '../../backends/backend.ts'
import { encodeEndpoint } from '../../network/endpoint.ts'
import { statusTransitions } from '../state/sandbox-repository.ts'
import { plan, restartEpoch, type Step, stopEpoch } from './plan.ts'

type State = ObservedSandbox['state'] | 'absent'

const states: readonly State[] = ['absent', 'starting', 'running', 'paused', 'stopped', 'broken']
const desiredStates = ['running', 'paused', 'archived', 'gone'] as const
const soon = false
const late = true

function observedAs(state: State, epoch = 'e1'): ObservedSandbox | undefined {
  return state === 'absent' ? undefined : { id: 'a', state, epoch, addresses: {} }
}

function rowWith(wanted: SandboxRow['wanted'], status: SandboxStatus, epoch: string | null = 'e1') {
  const addresses = encodeEndpoint({ id: 'a', state: 'running', epoch: '', addresses: {} })
  return { wanted, status, epoch, addresses }
}

/** In one word: the status that is written, or what is done. */
function stepText(step: Step): string {
  return step.kind === 'setStatus' ? step.status : step.kind
}

// In the order of `states`: what is done, or in capitals the status that is written. The epoch is the same on
// both sides.
const table: Record<string, string> = {
  'running STARTING': 'MISSING wait probe resume ERROR ERROR',
  'running RUNNING': 'MISSING idle idle STARTING ERROR ERROR',
  'running PAUSED': 'STARTING STARTING STARTING STARTING STARTING STARTING',
  'running ERROR': 'MISSING idle pause idle idle idle',
  'running MISSING': 'idle STARTING STARTING STARTING ERROR ERROR',
  'paused STARTING': 'MISSING wait pause PAUSED PAUSED ERROR',
  'paused RUNNING': 'MISSING wait pause PAUSED PAUSED ERROR',
  'paused PAUSED': 'MISSING idle pause idle idle ERROR',
  'paused ERROR': 'MISSING idle pause PAUSED PAUSED idle',
  'paused MISSING': 'idle idle pause PAUSED PAUSED ERROR',
  'archived STARTING': 'MISSING remove remove remove remove remove',
  'archived RUNNING': 'MISSING remove remove remove remove remove',
  'archived PAUSED': 'MISSING remove remove remove remove remove',
  'archived ERROR': 'MISSING remove remove remove remove remove',
  'archived MISSING': 'idle remove remove remove remove remove',
  'gone STARTING': 'deleteRow remove remove remove remove remove',
  'gone RUNNING': 'deleteRow remove remove remove remove remove',
  'gone PAUSED': 'deleteRow remove remove remove remove remove',
  'gone ERROR': 'deleteRow remove remove remove remove remove',
  'gone MISSING': 'deleteRow remove remove remove remove remove',
}

test.each(
  desiredStates.flatMap((wanted) => sandboxStatus.options.map((status) => [wanted, status] as const)),
)('wanted %s and %s: each state that can be observed has its step', (wanted, status) => {
  const steps = states.map((state) => stepText(plan(rowWith(wanted, status), observedAs(state), soon)))
  expect(steps.join(' ')).toBe(table[`${wanted} ${status}`])
})

test('a sandbox without an epoch is created, and one that is to be restarted is not an ended one', () => {
  const steps = (epoch: string | null) =>
    states
      .map((state) => stepText(plan(rowWith('running', 'STARTING', epoch), observedAs(state), soon)))
      .join(' ')
  expect(steps(null)).toBe('start wait STARTING resume resume start')
  expect(steps(restartEpoch)).toBe('MISSING wait STARTING resume resume start')
  expect(steps(stopEpoch)).toBe('MISSING wait stop resume resume start')
  expect(steps('e0')).toBe('MISSING wait STARTING resume ERROR ERROR')
})

test('new processes of a running sandbox are probed again', () => {
  const step = plan(rowWith('running', 'RUNNING', 'e0'), observedAs('running'), soon)
  expect(step).toEqual({ kind: 'setStatus', status: 'STARTING', epoch: 'e1' })
})

test('another address of one that runs is written down', () => {
  const moved = { id: 'a', state: 'running', epoch: 'e1', addresses: { AGENT_SERVER: 'http://x' } } as const
  expect(plan(rowWith('running', 'RUNNING'), moved, soon)).toEqual({ kind: 'setStatus', status: 'RUNNING' })
})

test('one that was never made is paused without being made, and can be missing only after that', () => {
  expect(stepText(plan(rowWith('paused', 'STARTING', null), undefined, soon))).toBe('PAUSED')
  expect(stepText(plan(rowWith('paused', 'PAUSED', null), undefined, soon))).toBe('idle')
  const made = plan(rowWith('paused', 'STARTING', null), observedAs('paused'), soon)
  expect(made).toEqual({ kind: 'setStatus', status: 'PAUSED', epoch: restartEpoch })
})

test('a sandbox without a row is removed', () => {
  const steps = states.map((state) => stepText(plan(undefined, observedAs(state), soon))).join(' ')
  expect(steps).toBe('idle remove remove remove remove remove')
})

test('after the grace a question or a wait is the last one', () => {
  expect(plan(rowWith('running', 'STARTING'), observedAs('running'), soon)).toEqual({
    kind: 'probe',
    isLast: false,
  })
  expect(plan(rowWith('running', 'STARTING'), observedAs('running'), late)).toEqual({
    kind: 'probe',
    isLast: true,
  })
  expect(plan(rowWith('running', 'STARTING'), observedAs('starting'), late)).toEqual({
    kind: 'wait',
    isLast: true,
  })
})

test('every step writes a status that may follow, for any row and observed state', () => {
  const anyEpoch = fc.constantFrom(null, restartEpoch, stopEpoch, 'e1', 'e2')
  fc.assert(
    fc.property(
      fc.constantFrom(...desiredStates),
      fc.constantFrom(...sandboxStatus.options),
      fc.constantFrom(...states),
      anyEpoch,
      fc.boolean(),
      (wanted, status, state, epoch, isLate) => {
        const step = plan(rowWith(wanted, status, epoch), observedAs(state), isLate ? late : soon)
        if (step.kind === 'setStatus' && step.status !== status)
          expect(statusTransitions[status]).toContain(step.status)
      },
    ),
    { numRuns: 2_000 },
  )
})

/** A world without time: what a backend that works, and whose agent servers answer, makes of a step. */
function planInput(wanted: SandboxRow['wanted'], status: SandboxStatus, epoch: string | null, state: State) {
  let row: ReturnType<typeof rowWith> | undefined = rowWith(wanted, status, epoch)
  let observed = observedAs(state)
  let starts = 0
  const step = (): boolean => {
    const next = plan(row, observed, soon)
    if (next.kind === 'idle') return false
    if (next.kind === 'deleteRow') row = undefined
    else if (next.kind === 'remove') observed = undefined
    else if (next.kind === 'stop') observed = observedAs('stopped', observed?.epoch)
    else if (next.kind === 'pause') observed = observedAs('paused', observed?.epoch)
    else if (next.kind === 'wait') observed = observedAs('running', observed?.epoch)
    else if (next.kind === 'probe' && row !== undefined) row = { ...row, status: 'RUNNING' }
    else if (next.kind === 'setStatus' && row !== undefined)
      row = { ...row, status: next.status, ...(next.epoch === undefined ? {} : { epoch: next.epoch }) }
    else if ((next.kind === 'start' || next.kind === 'resume') && row !== undefined) {
      starts += 1
      const isNew = observed?.state !== 'paused'
      observed = observedAs('running', isNew ? `n${starts}` : observed?.epoch)
      row = { ...row, epoch: observed?.epoch ?? null }
    }
    return true
  }
  return { step, now: () => ({ row, observed, starts }) }
}

test('with a working backend, a few steps lead from any state to the desired one', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...desiredStates),
      fc.constantFrom(...sandboxStatus.options),
      fc.constantFrom(...states),
      fc.constantFrom(null, restartEpoch, stopEpoch, 'e1', 'e2'),
      (wanted, status, state, epoch) => {
        const at = planInput(wanted, status, epoch, state)
        let steps = 0
        while (at.step()) expect(++steps).toBeLessThan(9)
        const { row, observed, starts } = at.now()
        expect(starts).toBeLessThan(2)
        if (wanted === 'gone') expect([row, observed]).toEqual([undefined, undefined])
        else if (row?.status === 'RUNNING')
          expect(`${wanted} ${observed?.state}`).toMatch(/running (running|starting)/)
        else if (row?.status === 'PAUSED') {
          expect(wanted).toBe('paused')
          expect(observed?.state).not.toBe('running')
        } else if (row?.status === 'MISSING') expect(observed?.state ?? 'absent').toMatch(/absent|starting/)
        else expect(row?.status).toBe('ERROR')
      },
    ),
    { numRuns: 2_000 },
  )
})
