import type { SandboxStatus } from '@slipway/protocol'

/**
 * From which status a sandbox may come into which. RUNNING is reached from STARTING alone: nothing runs
 * before its agent server has been asked.
 */
export const statusTransitions: Readonly<Record<SandboxStatus, readonly SandboxStatus[]>> = {
  STARTING: ['RUNNING', 'PAUSED', 'ERROR', 'MISSING'],
  RUNNING: ['STARTING', 'PAUSED', 'ERROR', 'MISSING'],
  PAUSED: ['STARTING', 'ERROR', 'MISSING'],
  ERROR: ['STARTING', 'PAUSED', 'MISSING'],
  MISSING: ['STARTING', 'PAUSED', 'ERROR'],
}
