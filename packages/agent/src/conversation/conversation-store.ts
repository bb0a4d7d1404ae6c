import type { Llm } from '@slipway/protocol'
import type { AppendOptions } from '@slipway/storage'
import type { ResolvedSettings } from './runtime/agent-runtime.ts'

/** What a conversation keeps beside its log; all of it is handed in by who opens it. */
export interface ConversationStore {
  /** The fold as it was saved last, if any. */
  readonly snapshot: { readonly position: number; readonly text: string } | null
  /** JSON text of what the models have used. */
  readonly stats: string | null
  saveSnapshot(snapshot: { readonly position: number; readonly text: string }): Promise<void>
  /** The settings as they are kept, for the record of the conversation. */
  seal(settings: ResolvedSettings): Pick<NonNullable<AppendOptions['record']>, 'request' | 'sealed'>
  /** The title, where it can have one. */
  readonly title?: {
    isMissing(): Promise<boolean>
    /** Nothing happens when it has one by now. */
    set(title: string): Promise<void>
    /** The model for titles, when it is not the agent's own. */
    model(): Promise<Llm | undefined>
  }
}
