import { defaultSources } from './kinds.ts'

export const eventSources = ['agent', 'user', 'environment'] as const
export type EventSource = (typeof eventSources)[number]

const sources: ReadonlyMap<string, EventSource> = new Map(Object.entries(defaultSources))

/** The default source of a kind (spec 2.2); undefined for a kind without one, or an unknown one. */
export function defaultSource(kind: string): EventSource | undefined {
  return sources.get(kind)
}
