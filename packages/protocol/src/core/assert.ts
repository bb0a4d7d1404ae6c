/** The value, or a plain Error when it is missing: our mistake, never the caller's. */
export function must<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new Error(`missing: ${what}`)
  return value
}
