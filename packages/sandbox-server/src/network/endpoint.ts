import type { SandboxRow } from '@slipway/storage'
import type { Seen } from '../backends/backend.ts'

/** Where a sandbox is reached and works. */
export interface Place {
  /** By name: see `Seen`. */
  readonly addresses: Readonly<Record<string, string>>
  readonly workingDir: string | undefined
}

/** As it stands in the row: the same text for the same place. */
export function placeText({ addresses, workingDir }: Seen): string {
  const sorted = Object.fromEntries(Object.entries(addresses).sort(([a], [b]) => (a < b ? -1 : 1)))
  return JSON.stringify({ addresses: sorted, workingDir })
}

export function placeOf({ addresses }: Pick<SandboxRow, 'addresses'>): Place {
  const { addresses: known = {}, workingDir } = JSON.parse(addresses) as Partial<Place>
  return { addresses: known, workingDir }
}
