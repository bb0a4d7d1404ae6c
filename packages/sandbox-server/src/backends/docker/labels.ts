import { hash } from 'node:crypto'
import type { SandboxConfig } from '../backend.ts'
import { workingDirectory } from './sandbox-paths.ts'

export const ledgerLabel = 'dev.slipway.ledger'
export const sandboxLabel = 'dev.slipway.sandbox'
export const configHashLabel = 'dev.slipway.order'
export const workingDirLabel = 'dev.slipway.working-dir'

/** What every container and volume of a sandbox carries. */
export const sandboxLabels = (ledgerId: string, config: SandboxConfig): Record<string, string> => ({
  [ledgerLabel]: ledgerId,
  [sandboxLabel]: config.id,
  [configHashLabel]: configHash(config),
  [workingDirLabel]: workingDirectory(config),
})

/** Changes when the order does. */
export function configHash(config: SandboxConfig): string {
  const parts = [
    config.image,
    config.command,
    sortedEntries(config.env),
    config.workingDir,
    sortedEntries(config.resources),
    config.network,
  ]
  return hash('sha256', JSON.stringify(parts))
}

const sortedEntries = (members: object) => Object.entries(members).sort(([a], [b]) => (a < b ? -1 : 1))
