import { confirmationPolicy, type SecurityRisk } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { requiresConfirmation } from '../confirm/confirmation.ts'
import type { PendingAction } from '../state/state.ts'
import { stricterPolicy, taskPolicy } from './policy.ts'

const risks: readonly SecurityRisk[] = ['UNKNOWN', 'LOW', 'MEDIUM', 'HIGH']
const policy = fc
  .oneof(
    fc.constant({ kind: 'NeverConfirm' }),
    fc.record({ kind: fc.constant('AlwaysConfirm'), deadline_seconds: fc.option(fc.integer({ min: 1 })) }),
    fc.record({
      kind: fc.constant('ConfirmRisky'),
      threshold: fc.constantFrom('LOW', 'MEDIUM', 'HIGH'),
      confirm_unknown: fc.boolean(),
      deadline_seconds: fc.option(fc.integer({ min: 1 })),
    }),
  )
  .map((value) => confirmationPolicy.parse(value))

const asks = (one: Parameters<typeof requiresConfirmation>[0], security_risk: SecurityRisk) => {
  const call: PendingAction = {
    id: 'a',
    position: 1,
    tool_name: 'terminal',
    tool_call_id: 'c',
    llm_response_id: 'r',
    action: { kind: 'TerminalAction', command: 'x', is_input: false, reset: false, timeout: null },
    security_risk,
  }
  return requiresConfirmation(one, [call], { approvedBelow: 0, tools: new Map() })
}
const deadline = (one: Parameters<typeof requiresConfirmation>[0]) =>
  'deadline_seconds' in one ? (one.deadline_seconds ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY

test('the stricter of two policies asks exactly where one of them asks, and waits as long as the less patient', () => {
  fc.assert(
    fc.property(policy, policy, (a, b) => {
      for (const risk of risks) expect(asks(stricterPolicy(a, b), risk)).toBe(asks(a, risk) || asks(b, risk))
      expect(deadline(stricterPolicy(a, b))).toBe(Math.min(deadline(a), deadline(b)))
      expect(stricterPolicy(a, b)).toEqual(stricterPolicy(b, a))
      expect(confirmationPolicy.parse(stricterPolicy(a, b))).toEqual(stricterPolicy(a, b))
    }),
  )
})

test('an agent confirms at least what its parent confirms, whatever its permission mode', () => {
  const modes = fc.constantFrom(undefined, 'always_confirm', 'never_confirm', 'confirm_risky' as const)
  const analyzers = fc.constantFrom(null, { kind: 'PolicyRailSecurityAnalyzer' as const })
  fc.assert(
    fc.property(policy, analyzers, modes, (own, analyzer, mode) => {
      const result = taskPolicy({ policy: own, analyzer }, mode as Parameters<typeof taskPolicy>[1])
      for (const risk of risks) if (asks(own, risk)) expect(asks(result.policy, risk)).toBe(true)
      // A risk that is judged otherwise could be one that is not asked about.
      if (own.kind !== 'NeverConfirm' || analyzer !== null) expect(result.analyzer).toEqual(analyzer)
      if (mode === 'always_confirm') expect(result.policy.kind).toBe('AlwaysConfirm')
      if (mode === undefined || mode === 'never_confirm') expect(result.policy).toEqual(own)
    }),
  )
})

test('an agent that asks about risky actions gets the model as analyzer where there is no other', () => {
  const free = { policy: { kind: 'NeverConfirm' }, analyzer: null } as const
  expect(taskPolicy(free, 'confirm_risky')).toEqual({
    policy: { kind: 'ConfirmRisky', threshold: 'HIGH', confirm_unknown: true, deadline_seconds: undefined },
    analyzer: { kind: 'LLMSecurityAnalyzer' },
  })
})
