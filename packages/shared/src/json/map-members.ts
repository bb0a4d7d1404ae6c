/** A copy with every member or item replaced, one level deep; any other value unchanged. */
export function mapMembers(
  value: unknown,
  map: (member: unknown, name: string | number) => unknown,
): unknown {
  if (Array.isArray(value)) return value.map(map)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, map(member, name)]))
}
