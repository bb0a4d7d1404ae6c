import type { HookConfig, HookEvent } from '@slipway/protocol'
import type { Workspace } from '../../workspace/workspace.ts'
import { type AskModel, Hooks, type HookVerdict } from '../hooks/hooks.ts'
import type { HookPayload } from '../hooks/protocol.ts'
import type { ConversationContext } from './conversation-context.ts'

interface HookSessionOptions {
  readonly context: ConversationContext
  readonly workspace: Workspace
  /** The hooks of now: plugins may bring more. */
  config(): HookConfig | undefined
  readonly askModel: AskModel
}

export class HookSession {
  readonly #options: HookSessionOptions
  #hooks: Hooks

  constructor(options: HookSessionOptions) {
    this.#options = options
    this.#hooks = this.#open()
  }

  /** Runs the hooks of an event and logs those that failed. Rejects only when aborted. */
  async run(event: HookEvent, payload: HookPayload, signal: AbortSignal): Promise<HookVerdict> {
    const { id, secrets, deps } = this.#options.context
    const verdict = await this.#hooks.run(event, payload, signal)
    for (const failure of verdict.failures)
      deps.logLine('warn', 'a hook failed', { conversation: id, reason: secrets.redact(failure) })
    return verdict
  }

  async reload(): Promise<void> {
    const before = this.#hooks
    this.#hooks = this.#open()
    await before.close()
  }

  async close(): Promise<void> {
    await this.#hooks.close()
  }

  #open(): Hooks {
    const { context, workspace, config, askModel } = this.#options
    const recordsExecutions = context.wire === 'current'
    return new Hooks({ config: config(), workspace, conversation: context.id, askModel, recordsExecutions })
  }
}
