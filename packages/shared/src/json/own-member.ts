/** A member of a map; undefined also for what every object inherits (`constructor`). */
export function ownMember<V>(map: Readonly<Record<string, V>>, name: string): V | undefined {
  return Object.hasOwn(map, name) ? map[name] : undefined
}

/** A copy of a map without one member. */
export function withoutMember<V>(map: Readonly<Record<string, V>>, name: string): Record<string, V> {
  return Object.fromEntries(Object.entries(map).filter(([other]) => other !== name))
}

/** A copy of a map in which a member has another name; the order stays. */
export function renameMember<V>(
  map: Readonly<Record<string, V>>,
  name: string,
  newName: string,
): Record<string, V> {
  return Object.fromEntries(
    Object.entries(map).map(([other, value]) => [other === name ? newName : other, value]),
  )
}
