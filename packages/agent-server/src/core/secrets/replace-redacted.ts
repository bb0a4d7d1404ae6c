/**
 * A copy in which `replace` maps texts and numbers that differ from the redacted copy, and values that
 * `mustReplace` matches. Undefined members and items are left out.
 */
export function replaceRedacted(
  value: unknown,
  redacted: unknown,
  options: {
    readonly replace: (value: unknown) => unknown
    readonly mustReplace: (value: unknown) => boolean
  },
): unknown {
  if (options.mustReplace(value)) return options.replace(value)
  if (typeof value === 'string' || typeof value === 'number')
    return value === redacted ? value : options.replace(value)
  if (typeof value !== 'object' || value === null) return value
  const replaceMember = (name: string | number, member: unknown) =>
    replaceRedacted(member, getMember(redacted, name), options)
  if (Array.isArray(value))
    return value.map((item, index) => replaceMember(index, item)).filter((item) => item !== undefined)
  const members = Object.entries(value).map(([name, member]) => [name, replaceMember(name, member)] as const)
  return Object.fromEntries(members.filter(([, member]) => member !== undefined))
}

/** A member or item of a value; undefined without one. */
export function getMember(value: unknown, name: string | number): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
