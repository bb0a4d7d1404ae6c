import type { SandboxRow } from '@slipway/storage/control-plane'

/** A running sandbox of the owner, and its number of conversations. */
interface Candidate {
  readonly row: Pick<SandboxRow, 'id' | 'created_at' | 'used_at'>
  readonly conversations: number
}

/** No conversation joins a sandbox that has this many. */
const maxConversationsPerSandbox = 20

/** The strategies of the settings (wire 3.6); any other text is NO_GROUPING. */
const strategies: Readonly<Record<string, (a: Candidate, b: Candidate) => number>> = {
  ADD_TO_ANY: () => 0,
  GROUP_BY_NEWEST: (a, b) => b.row.created_at - a.row.created_at,
  LEAST_RECENTLY_USED: (a, b) => a.row.used_at - b.row.used_at,
  FEWEST_CONVERSATIONS: (a, b) => a.conversations - b.conversations,
}

export function isGroupingStrategy(strategy: string): boolean {
  return Object.hasOwn(strategies, strategy)
}

/** The sandbox that a new conversation joins, the first of equal ones; undefined: it gets a new one. */
export function chooseByStrategy<C extends Candidate>(
  strategy: string,
  candidates: readonly C[],
): C | undefined {
  const compare = isGroupingStrategy(strategy) ? strategies[strategy] : undefined
  if (compare === undefined) return undefined
  const [best] = candidates
    .filter(({ conversations }) => conversations < maxConversationsPerSandbox)
    .toSorted(compare)
  return best
}
