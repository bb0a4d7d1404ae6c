import type { V1ObjectMeta } from '@kubernetes/client-node'

export const ledgerLabel = 'slipway.dev/ledger'
export const sandboxLabel = 'slipway.dev/sandbox'
/** The Pods of the control plane carry it, and only they may call sandboxes. */
export const componentLabel = 'slipway.dev/component'
/** On the volume of a paused sandbox. */
export const pausedAnnotation = 'slipway.dev/paused'
/** On the volume: as seen from inside. */
export const workingDirAnnotation = 'slipway.dev/working-dir'

/** Of all objects of a sandbox. */
export const objectName = (ledgerId: string, id: string) => `slipway-${ledgerId.slice(0, 8)}-${id}`

export const sandboxLabels = (ledgerId: string, id: string): Record<string, string> => ({
  'app.kubernetes.io/managed-by': 'slipway',
  [componentLabel]: 'sandbox',
  [ledgerLabel]: ledgerId,
  [sandboxLabel]: id,
})

export const ledgerSelector = (ledgerId: string, id?: string) =>
  id === undefined ? `${ledgerLabel}=${ledgerId}` : `${ledgerLabel}=${ledgerId},${sandboxLabel}=${id}`

export const sandboxOf = (metadata: V1ObjectMeta | undefined): string | undefined =>
  metadata?.labels?.[sandboxLabel]
