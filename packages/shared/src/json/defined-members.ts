/** A copy without the members that are undefined, for types that allow a member to be missing only. */
export function definedMembers<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return Object.fromEntries(members) as { [K in keyof T]?: Exclude<T[K], undefined> } // members of `value`
}
