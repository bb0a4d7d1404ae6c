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
import { outputLimits } from './output-limits.ts'
import { type Tool, type ToolAction, type ToolRunOptions, textBlock } from './tool.ts'
import { failureText } from './tool-failure.ts'
import { truncateMiddle } from './truncate.ts'

/** `Grep` for `GrepTool`, `GrepAction` and `GrepObservation`. */
type BaseKind<K> = K extends `${infer N}Tool`
  ? `${N}Action` | `${N}Observation` extends Action['kind'] | Observation['kind']
    ? N
    : never
  : never

/** The members of an observation that are not common to all. */
type ObservationMembers<N extends string> = Omit<
  Extract<Observation, { kind: `${N}Observation` }>,
  'kind' | 'content' | 'is_error'
>
type ToolResult<N extends string> = ObservationMembers<N> & {
  readonly content: string | Observation['content']
  readonly is_error?: boolean
}

interface ToolImplementation<N extends BaseKind<ToolDefinition['kind']>> {
  readonly kind: N
  /** Default: none. */
  resources?(action: ToolAction<`${N}Action`>): readonly string[]
  run(action: ToolAction<`${N}Action`>, signal: AbortSignal, options?: ToolRunOptions): Promise<ToolResult<N>>
  /** Rejects an action that its schema accepts: the reason, for the model. */
  check?(action: ToolAction<`${N}Action`>): string | undefined
  /**
   * The observation of an expected failure (a refused path, an unreadable file); `content` is the reason
   * unless given.
   */
  failureMembers(
    action: ToolAction<`${N}Action`>,
    reason: string,
  ): ObservationMembers<N> & Partial<Pick<ToolResult<N>, 'content'>>
  isOccupied?(): Promise<boolean>
  close?(): Promise<void>
}

/** A built-in tool from its protocol schemas. An expected failure of `run` becomes an observation. */
export function defineTool<N extends BaseKind<ToolDefinition['kind']>>(
  implementation: ToolImplementation<N>,
): Tool<ToolAction<`${N}Action`>> {
  const { kind, resources, check, isOccupied, close } = implementation
  const name = toolName(kind)
  const actionKind = `${kind}Action` as `${N}Action`
  const definition = toolDefinitions[`${kind}Tool` as keyof typeof toolDefinitions]
  const observation = ({ content, is_error = false, ...members }: ToolResult<N>) => {
    const blocks = typeof content === 'string' ? [textBlock(content)] : content
    // The compiler does not recombine what Omit removed.
    return { ...members, content: blocks, is_error, kind: `${kind}Observation` } as unknown as Observation
  }
  return {
    name,
    definition: { ...definition, description: toolDescription(name) },
    parameters: actionParameters(actionKind),
    parse: (args) => {
      const parsed = parseAction(actionKind, args)
      const issue = 'action' in parsed ? check?.(parsed.action) : undefined
      return issue === undefined ? parsed : { error: issue }
    },
    resources: (action) => resources?.(action) ?? [],
    run: async (action, signal, options) => {
      try {
        signal.throwIfAborted()
        return observation(await implementation.run(action, signal, options))
      } catch (error) {
        const reason = signal.aborted ? undefined : failureText(error)
        if (reason === undefined) throw error
        // A reason may contain a path or a pattern of any length.
        const content = truncateMiddle(
          reason,
          outputLimits.failure,
          ({ chars }) => `[${chars} characters left out.]`,
        )
        const members = implementation.failureMembers(action, reason)
        return observation({ content, ...members, is_error: true })
      }
    },
    isOccupied: async () => (await isOccupied?.()) ?? false,
    close: async () => await close?.(),
  }
}

const descriptionCache = new Map<string, string>()

/** The text for the model, from `descriptions/<name with dashes>.md`. */
export function toolDescription(name: string): string {
  const file = join(import.meta.dirname, '../descriptions', `${name.replaceAll('_', '-')}.md`)
  const text = descriptionCache.get(name) ?? readFileSync(file, 'utf8').trim()
  descriptionCache.set(name, text)
  return text
}
