import type { SandboxStatus } from '@slipway/protocol'

/** Legal changes of a status. RUNNING follows only STARTING: the agent server is asked first. */
export const statusTransitions: Readonly<Record<SandboxStatus, readonly SandboxStatus[]>> = {
  STARTING: ['RUNNING', 'PAUSED', 'ERROR', 'MISSING'],
  RUNNING: ['STARTING', 'PAUSED', 'ERROR', 'MISSING'],
  PAUSED: ['STARTING', 'ERROR', 'MISSING'],
  ERROR: ['STARTING', 'PAUSED', 'MISSING'],
  MISSING: ['STARTING', 'PAUSED', 'ERROR'],
}
