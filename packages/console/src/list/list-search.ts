import type { ExecutionStatus } from '@slipway/protocol'

const statuses = [
  'running',
  'waiting_for_confirmation',
  'idle',
  'paused',
  'finished',
  'error',
  'stuck',
] as const satisfies readonly ExecutionStatus[]

/** Words for what a conversation is doing. */
export const statusLabels: Readonly<Record<string, string>> = {
  running: 'Running',
  waiting_for_confirmation: 'Waits for you',
  idle: 'Idle',
  paused: 'Paused',
  finished: 'Finished',
  error: 'Error',
  stuck: 'Stuck',
  deleting: 'Being deleted',
  starting: 'Starting',
  missing: 'Gone',
}
export { statuses }

/** What of the list is in the address. */
export interface ListSearch {
  readonly q?: string
  readonly status?: (typeof statuses)[number]
  readonly tag?: string
}

/** What is not understood is left out. */
export function parseListSearch(search: Readonly<Record<string, unknown>>): ListSearch {
  const status = statuses.find((name) => name === search.status)
  const q = typeof search.q === 'string' || typeof search.q === 'number' ? String(search.q) : ''
  const tag =
    typeof search.tag === 'string' && /^[a-z0-9]+(?:[:=].*)?$/.test(search.tag) ? search.tag : undefined
  return { ...(q !== '' && { q }), ...(status && { status }), ...(tag && { tag }) }
}
