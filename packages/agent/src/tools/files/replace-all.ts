import type { Action } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import type { Tool } from '../core/tool.ts'

/** A switch of edits that is a part of the call alone: the members of actions are fixed. */
export const replaceAllName = 'replace_all'

/** A tool for edits whose calls may have `replace_all`; it runs with the option `replacesAll` then. */
export function withReplaceAll<A extends Action>(tool: Tool<A>): Tool<A> {
  const { properties } = tool.parameters
  const replaceAll = { type: 'boolean', description: 'Change every place where the old text stands.' }
  return {
    ...tool,
    parameters: {
      ...tool.parameters,
      properties: { ...(isRecord(properties) ? properties : {}), [replaceAllName]: replaceAll },
    },
    parse: ({ [replaceAllName]: replacesAll = false, ...args }) =>
      typeof replacesAll === 'boolean' || replacesAll === null
        ? tool.parse(args)
        : { error: `${replaceAllName} has to be true or false.` },
  }
}
