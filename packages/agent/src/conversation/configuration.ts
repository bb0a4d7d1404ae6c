import type {
  ConfirmationPolicy,
  ExtensionSource,
  Llm,
  SecretSource,
  SecurityAnalyzer,
} from '@slipway/protocol'
import { redact } from '@slipway/shared/redaction'
import { addPluginsToAgent } from '../plugins/agent-with-plugins.ts'
import { loadPluginOrProblem } from '../plugins/extensions.ts'
import { stateUpdate } from './events/event-drafts.ts'
import type { RunControl } from './run-control.ts'
import type { ConversationContext } from './runtime/conversation-context.ts'
import type { RuntimeLoader } from './runtime/runtime-loader.ts'

const redactedValue = '**********'

interface ConfigurationParts {
  readonly context: ConversationContext
  readonly runtimes: RuntimeLoader
  readonly runs: RunControl
}

/** Changes of an open conversation's settings. */
export class Configuration {
  readonly #parts: ConfigurationParts

  constructor(parts: ConfigurationParts) {
    this.#parts = parts
  }

  async setPolicy(policy: ConfirmationPolicy): Promise<void> {
    await this.#parts.context.settings.change(
      (now) => ({ ...now, confirmation_policy: policy }),
      () => [stateUpdate('confirmation_policy', policy)],
    )
    await this.#parts.runtimes.tasks?.syncPolicy()
    this.#parts.runs.scheduleDeadline()
  }

  async setAnalyzer(analyzer: SecurityAnalyzer | null): Promise<void> {
    await this.#parts.context.settings.change(
      (now) => ({ ...now, security_analyzer: analyzer ?? undefined }),
      () => [stateUpdate('security_analyzer', analyzer)],
    )
    await this.#parts.runtimes.tasks?.syncPolicy()
  }

  async addSecrets(added: Readonly<Record<string, SecretSource>>): Promise<void> {
    const { secrets, settings } = this.#parts.context
    secrets.add(added)
    await settings.change((now) => ({ ...now, secrets: { ...now.secrets, ...added } }))
  }

  async switchModel(llm: Llm): Promise<void> {
    const { secrets, settings } = this.#parts.context
    const agent = { ...settings.current.agent, llm }
    secrets.addValuesFrom(llm)
    await settings.change(
      (now) => ({ ...now, agent: { ...now.agent, llm } }),
      () => [stateUpdate('agent', redact(agent, redactedValue))],
    )
    const runtime = await this.#parts.runtimes.opened()
    runtime?.switchModel(llm)
  }

  async loadPlugin(source: ExtensionSource): Promise<void> {
    const { runtimes, runs } = this.#parts
    const { state, deps, secrets, settings, closing } = this.#parts.context
    runs.assertIdle(state)
    const runtime = await runtimes.open()
    const { extensions } = runtime
    const loaded = await loadPluginOrProblem(deps.extensions, source, closing.signal)
    secrets.addValuesFrom(loaded.plugin.servers)
    await settings.change(
      (now) => ({ ...now, plugins: [...extensions.pinnedWith(loaded)] }),
      (now) => {
        runs.assertIdle(now)
        const agent = addPluginsToAgent(settings.current.agent, [loaded.plugin, ...extensions.plugins])
        return [stateUpdate('agent', redact(agent, redactedValue))]
      },
      async () => {
        extensions.add(loaded)
        await runtime.reload(closing.signal)
      },
    )
  }
}
