import type { SandboxRow } from '@slipway/storage/control-plane'
import type { ObservedSandbox } from '../backends/backend.ts'

/** As stored in a row: equal texts for equal endpoints. */
export function encodeEndpoint({ addresses, workingDir }: ObservedSandbox): string {
  const sorted = Object.fromEntries(Object.entries(addresses).sort(([a], [b]) => (a < b ? -1 : 1)))
  return JSON.stringify({ addresses: sorted, workingDir })
}

export function decodeEndpoint({ addresses: text }: Pick<SandboxRow, 'addresses'>) {
  const { addresses = {}, workingDir }: Partial<ObservedSandbox> = JSON.parse(text)
  return { addresses, workingDir }
}
