import { Client } from '@slipway/client'
import { isRecord } from '@slipway/shared/json'
import type { ServerKind } from './contexts.ts'

/** Undefined for a server that is not Slipway's. Rejects when none answers. */
export async function detectServerKind(url: string, signal: AbortSignal): Promise<ServerKind | undefined> {
  const info: unknown = await new Client({ url }).call('serverInfo', { signal })
  if (!isRecord(info) || !('slipway_version' in info)) return undefined
  // A sandbox server says where its sandboxes run.
  return 'backends' in info ? 'sandbox' : 'agent'
}
