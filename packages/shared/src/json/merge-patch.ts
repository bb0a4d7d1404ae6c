import { redactedText } from '../redaction/mark.ts'
import { isRecord } from './json.ts'

/** The result of a JSON merge patch (RFC 7396): `null` removes a member. Neither argument is changed. */
export function mergePatch(target: unknown, patch: Readonly<Record<string, unknown>>): Record<string, unknown>
export function mergePatch(target: unknown, patch: unknown): unknown
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch
  const result = new Map(isRecord(target) ? Object.entries(target) : [])
  for (const [name, member] of Object.entries(patch)) {
    if (member === null) result.delete(name)
    else result.set(name, mergePatch(result.get(name), member))
  }
  return Object.fromEntries(result)
}

/**
 * A patch made from redacted values: a text that equals the redacted one stands for the current one, and a
 * placeholder that replaces nothing is left out.
 */
export function restoreRedacted(patch: unknown, redacted: unknown, current: unknown): unknown {
  if (typeof patch === 'string') {
    if (patch === redacted && redacted !== current) return current
    return patch === redactedText || patch === '<redacted>' ? undefined : patch
  }
  const restore = (name: string | number, member: unknown) =>
    restoreRedacted(member, getMember(redacted, name), getMember(current, name))
  if (Array.isArray(patch))
    return patch.map((item, index) => restore(index, item)).filter((item) => item !== undefined)
  if (!isRecord(patch)) return patch
  const members = Object.entries(patch).map(([name, member]) => [name, restore(name, member)] as const)
  return Object.fromEntries(members.filter(([, member]) => member !== undefined))
}

function getMember(value: unknown, name: string | number): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined
}
