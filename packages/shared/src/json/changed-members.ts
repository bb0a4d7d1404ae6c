import { isRecord } from './json.ts'

type Members = Readonly<Record<string, unknown>>

export interface MemberChanges {
  readonly before: Members
  readonly after: Members
}

/**
 * The members that differ, in records below them too, as `shown` has them: with stars for secrets. A list is
 * one value.
 */
export function changedMembers(before: Members, after: Members, shown: MemberChanges): MemberChanges {
  const old: Record<string, unknown> = {}
  const updated: Record<string, unknown> = {}
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [a, b] = [before[name], after[name]]
    if (JSON.stringify(a) === JSON.stringify(b)) continue
    const [shownA, shownB] = [shown.before[name], shown.after[name]]
    if (isRecord(a) && isRecord(b) && isRecord(shownA) && isRecord(shownB)) {
      const inner = changedMembers(a, b, { before: shownA, after: shownB })
      old[name] = inner.before
      updated[name] = inner.after
    } else {
      if (a !== undefined) old[name] = shownA ?? null
      if (b !== undefined) updated[name] = shownB ?? null
    }
  }
  return { before: old, after: updated }
}
