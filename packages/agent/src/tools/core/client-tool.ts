import type { Action, ClientTool, Observation, ToolDefinition } from '@slipway/protocol'
import { type Tool, textBlock } from './tool.ts'

/** Kinds of the actions of client tools begin with it; the name of the tool follows. */
export const clientActionPrefix = 'ClientAction_'

/**
 * A tool that the client executes: the call is logged and answered at once, and the client sends the result
 * as a message. Its kinds are not in the specification's closed lists, so it exists only on request.
 */
export function createClientTool({ name, description, parameters, annotations }: ClientTool): Tool {
  const kind = `${clientActionPrefix}${name}`
  const required = Array.isArray(parameters.required) ? parameters.required.map(String) : []
  const observation_type = 'ClientToolObservation'
  const definition = {
    description,
    action_type: kind,
    observation_type,
    annotations: annotations ?? null,
    client_tool_name: name,
    input_schema: parameters,
    kind: 'ClientTool',
    title: name,
  }
  const content = [textBlock('Tool call dispatched to client.')]
  const observation = { content, is_error: false, kind: observation_type }
  return {
    name,
    // The three kinds of a client's tool are open by design; the unions list the closed ones.
    definition: definition as unknown as ToolDefinition,
    parameters,
    parse: (args) => {
      const missing = required.filter((member) => !Object.hasOwn(args, member))
      if (missing.length > 0) return { error: `The arguments do not fit: ${missing.join(', ')} is required.` }
      return { action: { ...args, kind } as unknown as Action }
    },
    resources: () => [],
    run: async () => observation as unknown as Observation,
  }
}
