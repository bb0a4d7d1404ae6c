import type { Llm } from '@slipway/protocol'
import type { Model } from '../llm/model.ts'
import type { ConversationContext } from './runtime/conversation-context.ts'
import type { RuntimeLoader } from './runtime/runtime-loader.ts'
import { generateTitle } from './title.ts'
import { messageText } from './user-message.ts'

/** Titles of a conversation: on request, and once by itself after its first message. */
export class Titles {
  readonly #context: ConversationContext
  readonly #runtimes: RuntimeLoader
  #hasTried = false

  constructor(context: ConversationContext, runtimes: RuntimeLoader) {
    this.#context = context
    this.#runtimes = runtimes
  }

  /** A title for the first user message. */
  async generate(
    { llm, maxLength }: { readonly llm?: Llm; readonly maxLength: number },
    signal: AbortSignal,
  ): Promise<string> {
    const model = await this.#model(llm)
    const first = this.#context.state.view.events.find(
      (event) => event.kind === 'MessageEvent' && event.source === 'user',
    )
    const text = first?.kind === 'MessageEvent' ? messageText(first.llm_message) : ''
    return await this.#generate(text, { model, maxLength }, signal)
  }

  /** Sets a title for a conversation that has none. Failures are logged. */
  setInBackground(text: string): void {
    const { id, deps, store, settings } = this.#context
    if (store.title === undefined || !settings.current.autotitle || this.#hasTried) return
    this.#hasTried = true
    void this.#setMissing(store.title, text).catch((error: unknown) => {
      const reason = error instanceof Error ? error.name : typeof error
      deps.logLine('debug', 'no title was found', { conversation: id, reason })
    })
  }

  async #setMissing(store: NonNullable<ConversationContext['store']['title']>, text: string): Promise<void> {
    const { signal } = this.#context.closing
    if (!(await store.isMissing())) return
    const model = await this.#model(await store.model())
    const title = await this.#generate(text, { model }, signal)
    if (!signal.aborted && title !== '') await store.set(title)
  }

  async #model(llm: Llm | undefined): Promise<Model> {
    const runtime = await this.#runtimes.open()
    return llm === undefined ? runtime.model : runtime.openModel(llm)
  }

  async #generate(
    text: string,
    options: { readonly model: Model; readonly maxLength?: number },
    signal: AbortSignal,
  ): Promise<string> {
    const { title, reply } = await generateTitle(text, options, signal)
    const { closing, secrets } = this.#context
    if (reply !== undefined && !closing.signal.aborted) await this.#context.recordUsage(reply, 'title')
    return secrets.redact(title)
  }
}
