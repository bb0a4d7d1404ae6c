/**
 * A JSON value in which U+FFFD stands for each half of a surrogate pair that is alone, in texts and in names
 * of members. Such a half has no UTF-8: strict servers refuse it, and other programs cannot write it. What
 * has none is returned itself, so unchanged parts are shared; instances of classes are left alone.
 */
export function wellFormed<T>(value: T): T {
  return fit(value) as T // each value becomes one of its own type
}

function fit(value: unknown): unknown {
  if (typeof value === 'string') return value.isWellFormed() ? value : value.toWellFormed()
  if (Array.isArray(value)) {
    const items = value.map(fit)
    return items.every((item, index) => item === value[index]) ? value : items
  }
  if (typeof value !== 'object' || value === null || !isPlain(value)) return value
  let isSame = true
  const members = Object.entries(value).map(([name, member]) => {
    const fitted = fit(member)
    isSame &&= fitted === member && name.isWellFormed()
    return [name.toWellFormed(), fitted] as const
  })
  return isSame ? value : Object.fromEntries(members)
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
