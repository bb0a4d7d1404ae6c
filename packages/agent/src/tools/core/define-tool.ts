import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Action,
  actionParameters,
  type Observation,
  parseAction,
  type ToolDefinition,
  toolDefinitions,
  toolName,
} from '@slipway/protocol'
import { failureText } from './file-access.ts'
import { type Tool, type ToolAction, textBlock } from './tool.ts'
import { truncateMiddle } from './truncate.ts'

type BuiltinToolKind = Exclude<ToolDefinition['kind'], 'MCPToolDefinition'>

type ObservationKind = Observation['kind']
/** What an observation has besides what all have. */
type ObservationMembers<R extends ObservationKind> = Omit<
  Extract<Observation, { kind: R }>,
  'kind' | 'content' | 'is_error'
>
type ToolResult<R extends ObservationKind> = ObservationMembers<R> & {
  readonly content: string | Observation['content']
}

interface ToolImplementation<K extends Action['kind'], R extends ObservationKind> {
  readonly tool: BuiltinToolKind
  /** Where the text for the model lies, in `<registry name with dashes>.md`: the folder of the tool. */
  readonly directory: string
  readonly action: K
  readonly observation: R
  resources(action: ToolAction<K>): readonly string[]
  run(action: ToolAction<K>, signal: AbortSignal): Promise<ToolResult<R>>
  /** The observation of a failure of the world: a path that is refused, a file that cannot be read. The text says why. */
  failureMembers(action: ToolAction<K>): ObservationMembers<R>
}

/** A tool of ours from its schemas in the protocol: what `run` cannot do because of the world becomes an observation. */
export function defineTool<K extends Action['kind'], R extends ObservationKind>(
  implementation: ToolImplementation<K, R>,
): Tool<ToolAction<K>> {
  const name = toolName(implementation.tool)
  const observation = (
    members: ObservationMembers<R>,
    content: string | Observation['content'],
    is_error: boolean,
  ) => {
    const blocks = typeof content === 'string' ? [textBlock(content)] : content
    // The compiler does not put together again what Omit took apart.
    return {
      ...members,
      content: blocks,
      is_error,
      kind: implementation.observation,
    } as unknown as Observation
  }
  return {
    name,
    definition: {
      ...toolDefinitions[implementation.tool],
      description: toolDescription(implementation.directory, name),
    },
    parameters: actionParameters(implementation.action),
    parse: (args) => parseAction(implementation.action, args),
    resources: (action) => implementation.resources(action),
    run: async (action, signal) => {
      try {
        signal.throwIfAborted()
        const result = await implementation.run(action, signal)
        return observation(result, result.content, false)
      } catch (error) {
        const reason = signal.aborted ? undefined : failureText(error)
        if (reason === undefined) throw error
        return observation(implementation.failureMembers(action), truncateReason(reason), true)
      }
    },
  }
}

/** A path or a pattern in it may be as long as the model made it. */
function truncateReason(reason: string): string {
  return truncateMiddle(reason, 16_000, ({ chars }) => `[${chars} characters left out.]`)
}

const descriptionCache = new Map<string, string>()

function toolDescription(directory: string, name: string): string {
  const cached = descriptionCache.get(name)
  if (cached !== undefined) return cached
  const text = readFileSync(join(directory, `${name.replaceAll('_', '-')}.md`), 'utf8').trim()
  descriptionCache.set(name, text)
  return text
}
