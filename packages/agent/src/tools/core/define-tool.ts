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
import { type Tool, type ToolAction, text } from './tool.ts'
import { cutMiddle } from './truncate.ts'

type OwnKind = Exclude<ToolDefinition['kind'], 'MCPToolDefinition'>

type ObservationKind = Observation['kind']
/** What an observation has besides what all have. */
type Members<R extends ObservationKind> = Omit<
  Extract<Observation, { kind: R }>,
  'kind' | 'content' | 'is_error'
>
type Result<R extends ObservationKind> = Members<R> & { readonly content: string | Observation['content'] }

interface Own<K extends Action['kind'], R extends ObservationKind> {
  readonly tool: OwnKind
  /** Where the text for the model lies, in `<registry name with dashes>.md`: the folder of the tool. */
  readonly directory: string
  readonly action: K
  readonly observation: R
  resources(action: ToolAction<K>): readonly string[]
  run(action: ToolAction<K>, signal: AbortSignal): Promise<Result<R>>
  /** The observation of a failure of the world: a path that is refused, a file that cannot be read. The text says why. */
  failed(action: ToolAction<K>): Members<R>
}

/** A tool of ours from its schemas in the protocol: what `run` cannot do because of the world becomes an observation. */
export function ownTool<K extends Action['kind'], R extends ObservationKind>(
  own: Own<K, R>,
): Tool<ToolAction<K>> {
  const name = toolName(own.tool)
  const observation = (members: Members<R>, content: string | Observation['content'], is_error: boolean) => {
    const blocks = typeof content === 'string' ? [text(content)] : content
    // The compiler does not put together again what Omit took apart.
    return { ...members, content: blocks, is_error, kind: own.observation } as unknown as Observation
  }
  return {
    name,
    definition: { ...toolDefinitions[own.tool], description: description(own.directory, name) },
    parameters: actionParameters(own.action),
    parse: (args) => parseAction(own.action, args),
    resources: (action) => own.resources(action),
    run: async (action, signal) => {
      try {
        signal.throwIfAborted()
        const result = await own.run(action, signal)
        return observation(result, result.content, false)
      } catch (error) {
        const why = signal.aborted ? undefined : failureText(error)
        if (why === undefined) throw error
        return observation(own.failed(action), short(why), true)
      }
    },
  }
}

/** A path or a pattern in it may be as long as the model made it. */
function short(why: string): string {
  return cutMiddle(why, 16_000, ({ chars }) => `[${chars} characters left out.]`)
}

const descriptions = new Map<string, string>()

function description(directory: string, name: string): string {
  const known = descriptions.get(name)
  if (known !== undefined) return known
  const text = readFileSync(join(directory, `${name.replaceAll('_', '-')}.md`), 'utf8').trim()
  descriptions.set(name, text)
  return text
}
