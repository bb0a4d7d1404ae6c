import { createHash } from 'node:crypto'
import type { Order } from '../backend.ts'
import { workingDirOf } from './sandbox-paths.ts'

export const ledgerLabel = 'dev.slipway.ledger'
export const sandboxLabel = 'dev.slipway.sandbox'
export const orderLabel = 'dev.slipway.order'
export const workingDirLabel = 'dev.slipway.working-dir'

/** What every container and volume of a sandbox carries. */
export const labelsOf = (ledgerId: string, order: Order): Record<string, string> => ({
  [ledgerLabel]: ledgerId,
  [sandboxLabel]: order.id,
  [orderLabel]: orderHash(order),
  [workingDirLabel]: workingDirOf(order),
})

/** Changes when the order does. */
export function orderHash(order: Order): string {
  const parts = [
    order.image,
    order.command,
    sorted(order.env),
    order.workingDir,
    sorted(order.resources),
    order.network,
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

const sorted = (members: object) => Object.entries(members).sort(([a], [b]) => (a < b ? -1 : 1))
