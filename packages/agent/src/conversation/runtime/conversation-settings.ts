import type { ConfirmationPolicy, SecurityAnalyzer } from '@slipway/protocol'
import { Mutex } from '@slipway/shared/async'
import type { EventDraft } from '@slipway/storage'
import type { ConversationWriter } from '../events/writer.ts'
import type { ResolvedSettings } from '../state/resolved-settings.ts'
import type { ConversationState } from '../state/state.ts'
import type { ConversationStore } from './deps.ts'

/** The current settings of a conversation. Changes are stored one after another. */
export class ConversationSettings {
  current: ResolvedSettings
  readonly #writer: ConversationWriter
  readonly #store: ConversationStore
  readonly #mutex = new Mutex()

  constructor(initial: ResolvedSettings, writer: ConversationWriter, store: ConversationStore) {
    this.current = initial
    this.#writer = writer
    this.#store = store
  }

  get policy(): ConfirmationPolicy {
    return this.#writer.state.policy ?? this.current.confirmation_policy ?? { kind: 'NeverConfirm' }
  }

  get isPlanning(): boolean {
    return this.#writer.state.isPlanning ?? this.current.plan_mode ?? false
  }

  get analyzer(): SecurityAnalyzer | null {
    const { analyzer } = this.#writer.state
    return analyzer === undefined ? (this.current.security_analyzer ?? null) : analyzer
  }

  /** Stores changed settings together with the events of the change; `after` runs before the next change. */
  change(
    update: (settings: ResolvedSettings) => ResolvedSettings,
    events: (now: ConversationState) => readonly EventDraft[] = () => [],
    after?: () => Promise<void>,
  ): Promise<void> {
    return this.#mutex.runExclusive(async () => {
      const settings = update(this.current)
      await this.#writer.write((now) => ({ events: events(now), record: this.#store.seal(settings) }))
      this.current = settings
      await after?.()
    })
  }
}
