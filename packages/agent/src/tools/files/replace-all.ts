import type { CallMember } from '../core/call-member.ts'

/** Of a call of an edit, which runs with the option `replacesAll` then. */
export const replaceAll = {
  name: 'replace_all',
  type: 'boolean',
  description: 'Change every place where the old text stands.',
} as const satisfies CallMember
