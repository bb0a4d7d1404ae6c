import { isAcpAgent, type Llm } from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import type { Model, ModelReply } from '../llm/model.ts'
import { textMessage } from './events/event-drafts.ts'
import type { ConversationContext } from './runtime/conversation-context.ts'
import type { RuntimeLoader } from './runtime/runtime-loader.ts'
import { messageText } from './user-message.ts'
import { replyText } from './view/content-blocks.ts'

const promptLength = 1000
const instruction =
  'Give the conversation that begins with the following message a title. Answer with the title alone: a few words in the language of the message, without quotes, of at most'

/** Titles of a conversation: on request, and once on its own after its first message. */
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

  /** Sets a title for a conversation without one. Failures are logged. */
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

  /** None where an external agent asks models on its own. */
  async #model(llm: Llm | undefined): Promise<Model | undefined> {
    if (llm === undefined && isAcpAgent(this.#context.settings.current.agent)) return undefined
    const runtime = await this.#runtimes.open()
    return llm === undefined ? runtime.model : runtime.openModel(llm)
  }

  async #generate(
    text: string,
    options: { readonly model: Model | undefined; readonly maxLength?: number },
    signal: AbortSignal,
  ): Promise<string> {
    const { title, reply } = await generateTitle(text, options, signal)
    const { closing, secrets } = this.#context
    if (reply !== undefined && !closing.signal.aborted) await this.#context.recordUsage(reply, 'title')
    return secrets.redact(title)
  }
}

/** A title for a conversation that begins with `text`: the model's, else the truncated text. */
export async function generateTitle(
  text: string,
  options: { readonly model: Model | undefined; readonly maxLength?: number },
  signal: AbortSignal,
): Promise<{ readonly title: string; readonly reply?: ModelReply }> {
  const { model, maxLength = 50 } = options
  const messages = [
    textMessage('system', `${instruction} ${maxLength} characters.`),
    textMessage('user', firstChars(text, promptLength)),
  ]
  const result = await model?.generate({ messages, tools: [], maxOutputTokens: 200 }, signal)
  if (result?.kind !== 'reply') return { title: truncateTitle(text, maxLength) }
  const own = replyText(result, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/^["'`]+|["'`]+$/g, '')
  return { title: truncateTitle(own === '' ? text : own, maxLength), reply: result }
}

function truncateTitle(text: string, maxLength: number): string {
  const line = [...text.replace(/\s+/g, ' ').trim()]
  if (line.length <= maxLength) return line.join('')
  return maxLength <= 3 ? line.slice(0, maxLength).join('') : `${line.slice(0, maxLength - 3).join('')}...`
}
