/** The ids of each parent, in the order of the rows, whose first members are parent and id. */
export function groupChildren(
  parents: readonly string[],
  rows: readonly (readonly [parent: string, id: string, ...rest: unknown[]])[],
): (readonly string[])[] {
  const children = Map.groupBy(rows, ([parent]) => parent)
  return parents.map((parent) => (children.get(parent) ?? []).map(([, id]) => id))
}
