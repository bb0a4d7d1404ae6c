import {
  type Action,
  type BuiltInTool,
  type Observation,
  parseArguments,
  schemaParameters,
  type ToolDefinition,
  toolName,
} from '@slipway/protocol'
import { toolDescription } from './define-tool.ts'
import { type Tool, textBlock } from './tool.ts'
import { failureText } from './tool-failure.ts'

interface OpenKindTool<A, O> {
  /** Default: that of its kind. */
  readonly name?: string
  readonly definition: BuiltInTool
  /** Of the actions. */
  readonly schema: Parameters<typeof schemaParameters>[0]
  resources(action: A): readonly string[]
  run(action: A, signal: AbortSignal): Promise<O>
  /** The members of the observation of an expected failure. */
  failureMembers(action: A): Omit<O, 'content' | 'is_error' | 'kind'>
  isOccupied?(): Promise<boolean>
  close?(): Promise<void>
}

/**
 * A built-in tool whose kinds are outside the specification's closed lists, so it is opened only by name. An
 * expected failure of `run` becomes an observation.
 */
export function defineOpenKindTool<A, O extends { readonly kind: string }>(tool: OpenKindTool<A, O>): Tool {
  const { definition, schema, isOccupied, close } = tool
  const { name = toolName(definition.kind) } = tool
  // The kinds are open by design; the unions list the closed ones. Actions were parsed by `parse`.
  const own = (action: Action) => action as unknown as A
  return {
    name,
    definition: { ...definition, description: toolDescription(name) } as unknown as ToolDefinition,
    parameters: schemaParameters(schema),
    parse: (args) => {
      const parsed = parseArguments(schema, definition.action_type, args)
      return 'error' in parsed ? parsed : { action: parsed.action as unknown as Action }
    },
    resources: (action) => tool.resources(own(action)),
    run: async (action, signal) => {
      try {
        signal.throwIfAborted()
        return (await tool.run(own(action), signal)) as unknown as Observation
      } catch (error) {
        const reason = signal.aborted ? undefined : failureText(error)
        if (reason === undefined) throw error
        const members = { content: [textBlock(reason)], is_error: true, kind: definition.observation_type }
        return { ...tool.failureMembers(own(action)), ...members } as unknown as Observation
      }
    },
    isOccupied: async () => (await isOccupied?.()) ?? false,
    close: async () => await close?.(),
  }
}
