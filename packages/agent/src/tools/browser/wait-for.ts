import type { CallMember } from '../core/call-member.ts'

/** Of a call that reads the state of a page, which runs with the option `awaitedText` then. */
export const waitFor = {
  name: 'wait_for',
  type: 'string',
  description: 'Wait until the page shows this text.',
} as const satisfies CallMember
