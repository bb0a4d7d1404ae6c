import type { ExternalAgent } from './external/external-agent.ts'
import type { RunControl } from './run-control.ts'
import type { ConversationContext } from './runtime/conversation-context.ts'
import type { RuntimeLoader } from './runtime/runtime-loader.ts'
import type { Titles } from './titles.ts'

/** The parts of an open conversation, for the functions that implement its methods. */
export interface ConversationParts {
  readonly context: ConversationContext
  readonly runtimes: RuntimeLoader
  readonly runs: RunControl
  readonly titles: Titles
  /** Answers where the agent is its own program. */
  readonly external: ExternalAgent
}
