import type { Action } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import type { Tool } from './tool.ts'

/** A member of a call that its action lacks, since the members of actions are fixed. */
export interface CallMember {
  readonly name: string
  readonly type: 'boolean' | 'string'
  readonly description: string
}

/** A tool whose calls may have the member; the loop reads it and runs the tool with an option. */
export function withCallMember<A extends Action>(
  tool: Tool<A>,
  { name, type, description }: CallMember,
): Tool<A> {
  const { properties } = tool.parameters
  return {
    ...tool,
    parameters: {
      ...tool.parameters,
      properties: { ...(isRecord(properties) ? properties : {}), [name]: { type, description } },
    },
    parse: ({ [name]: given = null, ...args }) =>
      given === null || typeof given === type
        ? tool.parse(args)
        : { error: `${name} has to be ${type === 'boolean' ? 'true or false' : 'a text'}.` },
  }
}
