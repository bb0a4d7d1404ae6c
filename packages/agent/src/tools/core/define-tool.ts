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
import { type Tool, type ToolAction, textBlock } from './tool.ts'
import { failureText } from './tool-failure.ts'
import { truncateMiddle } from './truncate.ts'

type BuiltinToolKind = Exclude<ToolDefinition['kind'], 'MCPToolDefinition'>

type ObservationKind = Observation['kind']
/** The members of an observation that are not common to all. */
type ObservationMembers<R extends ObservationKind> = Omit<
  Extract<Observation, { kind: R }>,
  'kind' | 'content' | 'is_error'
>
type ToolResult<R extends ObservationKind> = ObservationMembers<R> & {
  readonly content: string | Observation['content']
  readonly is_error?: boolean
}

interface ToolImplementation<K extends Action['kind'], R extends ObservationKind> {
  readonly tool: BuiltinToolKind
  /** Folder with the description for the model, `<registry name with dashes>.md`. */
  readonly directory: string
  readonly action: K
  readonly observation: R
  resources(action: ToolAction<K>): readonly string[]
  run(action: ToolAction<K>, signal: AbortSignal): Promise<ToolResult<R>>
  /** Rejects an action that its schema accepts: the reason, for the model. */
  check?(action: ToolAction<K>): string | undefined
  /**
   * The observation of an expected failure (a refused path, an unreadable file); `content` is the reason
   * unless given.
   */
  failureMembers(
    action: ToolAction<K>,
    reason: string,
  ): ObservationMembers<R> & Partial<Pick<ToolResult<R>, 'content'>>
  close?(): Promise<void>
}

/** A built-in tool from its protocol schemas. An expected failure of `run` becomes an observation. */
export function defineTool<K extends Action['kind'], R extends ObservationKind>(
  implementation: ToolImplementation<K, R>,
): Tool<ToolAction<K>> {
  const name = toolName(implementation.tool)
  const observation = (result: ToolResult<R>) => {
    const { content, is_error = false } = result
    const blocks = typeof content === 'string' ? [textBlock(content)] : content
    // The compiler does not recombine what Omit removed.
    return {
      ...result,
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
    parse: (args) => {
      const parsed = parseAction(implementation.action, args)
      const issue = 'action' in parsed ? implementation.check?.(parsed.action) : undefined
      return issue === undefined ? parsed : { error: issue }
    },
    resources: (action) => implementation.resources(action),
    run: async (action, signal) => {
      try {
        signal.throwIfAborted()
        return observation(await implementation.run(action, signal))
      } catch (error) {
        const reason = signal.aborted ? undefined : failureText(error)
        if (reason === undefined) throw error
        const members = implementation.failureMembers(action, reason)
        return observation({ content: truncateReason(reason), ...members, is_error: true })
      }
    },
    close: async () => await implementation.close?.(),
  }
}

/** A reason may contain a path or a pattern of any length. */
function truncateReason(reason: string): string {
  return truncateMiddle(reason, 16_000, ({ chars }) => `[${chars} characters left out.]`)
}

const descriptionCache = new Map<string, string>()

/** The text for the model, from `<name with dashes>.md` in the folder of the tool. */
export function toolDescription(directory: string, name: string): string {
  const cached = descriptionCache.get(name)
  if (cached !== undefined) return cached
  const text = readFileSync(join(directory, `${name.replaceAll('_', '-')}.md`), 'utf8').trim()
  descriptionCache.set(name, text)
  return text
}
