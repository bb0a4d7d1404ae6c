import { families } from '../../conformance/map/families.ts'
import type { ConformanceCase } from './find-cases.ts'

/**
 * What a case is about: the family of a case of the map, the suite of another one in `conformance`, the
 * package with its capability folder of a test beside the code.
 */
export function capabilityOf({ id, file }: ConformanceCase): string {
  const [top = '', folder = '', , capability = ''] = file.split('/')
  if (top === 'conformance') {
    const family = families[id?.split('.')[0] ?? '']
    return family === undefined ? `${top}/${folder}` : `map/${family.what}`
  }
  if (top !== 'packages') return top
  return capability.includes('.') ? folder : `${folder}/${capability}`
}

/** The number of cases of each group in each list, of groups that any list has, by name. */
export function countCases(
  lists: readonly (readonly ConformanceCase[])[],
  groupOf: (each: ConformanceCase) => string,
): Map<string, number[]> {
  const counts = new Map<string, number[]>()
  for (const [at, list] of lists.entries())
    for (const each of list) {
      const group = groupOf(each)
      const own = counts.get(group) ?? lists.map(() => 0)
      own[at] = (own[at] ?? 0) + 1
      counts.set(group, own)
    }
  return new Map([...counts].toSorted(([one], [other]) => (one < other ? -1 : 1)))
}

/** A line for each group, and the sums as the last. */
export function describeCounts(counts: ReadonlyMap<string, readonly number[]>): string[] {
  const sums = [...counts.values()].reduce(
    (sum, own) => own.map((count, at) => count + (sum[at] ?? 0)),
    [] as number[],
  )
  return [...counts, ['all', sums] as const].map(
    ([group, own]) => `${group.padEnd(48)}${own.map((count) => String(count).padStart(6)).join('')}`,
  )
}
