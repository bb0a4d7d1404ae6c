import { redactedText } from '../secrets/expose-secrets.ts'

/** What a JSON merge patch (RFC 7396) makes of a value. Neither is changed. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const result = new Map(isObject(target) ? Object.entries(target) : [])
  for (const [name, member] of Object.entries(patch)) {
    if (member === null) result.delete(name)
    else result.set(name, mergePatch(result.get(name), member))
  }
  return Object.fromEntries(result)
}

/**
 * A patch without what was only shown: a value that stands in it as the caller was shown it is the one that it was shown for, and a
 * mask where there is nothing to be hidden is left out.
 */
export function restoreRedacted(patch: unknown, redacted: unknown, current: unknown): unknown {
  if (typeof patch === 'string') {
    if (patch === redacted && redacted !== current) return current
    return patch === redactedText || patch === '<redacted>' ? undefined : patch
  }
  if (Array.isArray(patch))
    return patch
      .map((item, index) => restoreRedacted(item, getMember(redacted, index), getMember(current, index)))
      .filter((item) => item !== undefined)
  if (!isObject(patch)) return patch
  const members = Object.entries(patch).map(
    ([name, member]) =>
      [name, restoreRedacted(member, getMember(redacted, name), getMember(current, name))] as const,
  )
  return Object.fromEntries(members.filter(([, member]) => member !== undefined))
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function getMember(value: unknown, name: string | number): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined
}
