import type { SandboxRow } from '@slipway/storage'
import type { ObservedSandbox } from '../backends/backend.ts'

export interface SandboxEndpoint {
  /** See `ObservedSandbox`. */
  readonly addresses: Readonly<Record<string, string>>
  readonly workingDir: string | undefined
}

/** As stored in a row: equal texts for equal endpoints. */
export function encodeEndpoint({ addresses, workingDir }: ObservedSandbox): string {
  const sorted = Object.fromEntries(Object.entries(addresses).sort(([a], [b]) => (a < b ? -1 : 1)))
  return JSON.stringify({ addresses: sorted, workingDir })
}

export function decodeEndpoint({ addresses }: Pick<SandboxRow, 'addresses'>): SandboxEndpoint {
  const { addresses: stored = {}, workingDir } = JSON.parse(addresses) as Partial<SandboxEndpoint>
  return { addresses: stored, workingDir }
}
