import type { TransientUpdate } from '@slipway/client'
import { observationText } from '@slipway/protocol/event-text'
import {
  actionText,
  asObject,
  asString,
  type JsonObject,
  riskMark,
  toDisplayJson,
  withoutLastLineFeed,
} from './action-text.ts'
import { statusText, summarizeEvent } from './event-line.ts'
import { sanitizeLine, sanitizeLines, truncate, truncateToWidth } from './sanitize.ts'
import { consentNote, hookNote, type StateNote } from './state-notes.ts'
import { paint, type Style } from './terminal.ts'
import { WordWrapper } from './word-wrapper.ts'

/** Longer messages of users are cut; the agent's are shown in full. */
const maxMessageCharacters = 2_000
/** Lines shown of the start and of the end of a result. */
const headLines = 3
const tailLines = 5

/**
 * Renders transient updates and events as text for a terminal, no wider than it. Streamed text is not
 * repeated with its event; missing deltas are completed.
 */
export class TranscriptRenderer {
  readonly #columns: number
  readonly #directory: string | undefined
  #stream: { readonly kind: 'content' | 'reasoning'; readonly flow: WordWrapper } | undefined
  #streamedText = ''
  #speaker = ''
  /**
   * The user's messages that count, each with the id of the event before it, null at the beginning.
   */
  #userMessages: { readonly text: string; readonly before: string | null }[] = []
  #lastEventId: string | null = null
  /** Ids of the calls of an external agent that have begun. */
  readonly #externalCalls = new Set<string>()

  /** `directory`: files below it are shown with the rest of their path. */
  constructor(options: { readonly columns: number; readonly directory?: string | undefined }) {
    this.#columns = Math.max(20, options.columns)
    this.#directory = options.directory
  }

  renderUpdate(update: TransientUpdate): string {
    if (update.kind === 'StreamingResetEvent') return this.#reset()
    if (update.kind === 'ConversationStateUpdateEvent' && update.key === 'model_retry')
      return this.#endStream() + this.#text('', retryLine(update.value), 'yellow')
    if (update.kind !== 'StreamingDeltaEvent') return ''
    const { content = '', reasoning_content = '' } = update
    this.#streamedText += content
    return this.#streamText('reasoning', reasoning_content) + this.#streamText('content', content)
  }

  /** Accepts any JSON value: stored events of other versions have their own kinds and shapes. */
  renderEvent(event: unknown): string {
    const members = asObject(event)
    const text = this.#render(event, members)
    if (members.key === 'leaf_event_id') this.#lastEventId = asString(members.value) || null
    else if (typeof members.id === 'string') this.#lastEventId = members.id
    return text
  }

  #render(event: unknown, members: JsonObject): string {
    switch (members.kind) {
      case 'MessageEvent':
        return this.#message(members)
      case 'ActionEvent':
        // An external agent asks in the middle of its message.
        if (members.tool_name === 'request_permission') return this.#endStream() + this.#action(members)
        return this.#agentText(contentTexts(members.thought).join('')) + this.#action(members)
      case 'ObservationEvent':
        return this.#endStream() + this.#observation(members)
      case 'UserRejectObservation':
        return this.#endStream() + this.#text('    ', summarizeEvent(event).summary, 'yellow')
      case 'AgentErrorEvent':
        return this.#endStream() + this.#text('    ', summarizeEvent(event).summary, 'red')
      case 'ConversationErrorEvent':
        this.#streamedText = ''
        return (
          this.#endStream() +
          this.#text('', `✗ ${asString(members.code)}: ${asString(members.detail)}`, 'red')
        )
      case 'ConversationStateUpdateEvent':
        return this.#endStream() + this.#state(members)
      case 'ACPToolCallEvent':
        return this.#endStream() + this.#externalCall(members)
      case 'HookExecutionEvent':
        return this.#endStream() + this.#note(hookNote(members))
      case 'SystemPromptEvent': {
        const tools = Array.isArray(members.tools) ? members.tools.length : 0
        return this.#endStream() + this.#remarkLine(`system prompt, ${tools} tools`)
      }
      default: {
        const { kind, summary } = summarizeEvent(event)
        return this.#endStream() + this.#remarkLine(`${kind} ${summary}`)
      }
    }
  }

  #reset(): string {
    if (this.#stream === undefined) return ''
    this.#streamedText = ''
    return this.#endStream() + this.#remarkLine('the answer broke off')
  }

  #message(members: JsonObject): string {
    const message = asObject(members.llm_message)
    const parts = contentTexts(message.content)
    if (members.source === 'agent') return this.#agentText(parts.join(''))
    const name = members.source === 'user' ? 'You' : 'Environment'
    if (members.source === 'user')
      this.#userMessages.push({ text: parts.join(' '), before: this.#lastEventId })
    return (
      this.#endStream() +
      this.#label(name) +
      this.#text('  ', truncate(parts.join('\n'), maxMessageCharacters))
    )
  }

  /** The complete text of the agent, of which a part may have been streamed. */
  #agentText(text: string): string {
    const streamed = this.#streamedText
    this.#streamedText = ''
    const isContinuation = streamed !== '' && text.startsWith(streamed)
    return (
      (isContinuation ? '' : this.#endStream()) +
      this.#streamText('content', isContinuation ? text.slice(streamed.length) : text) +
      this.#endStream()
    )
  }

  #streamText(kind: 'content' | 'reasoning', text: string): string {
    if (text === '') return ''
    let out = ''
    if (this.#stream?.kind !== kind) {
      out += this.#endStream() + this.#label('Agent')
      const style = kind === 'reasoning' ? 'dim' : undefined
      this.#stream = { kind, flow: new WordWrapper({ indent: '  ', columns: this.#columns, style }) }
    }
    return out + this.#stream.flow.write(text)
  }

  #endStream(): string {
    const rest = this.#stream?.flow.finish() ?? ''
    this.#stream = undefined
    return rest
  }

  #label(name: string): string {
    if (this.#speaker === name) return ''
    this.#speaker = name
    return `${paint('bold', name)}\n`
  }

  #action(members: JsonObject): string {
    const { action } = members
    const name = truncateToWidth(sanitizeLine(asString(members.tool_name)), Math.ceil(this.#columns / 3))
    const { kind, message } = asObject(action)
    if (kind === 'FinishAction') return this.#label('Agent') + this.#text('  ', asString(message))
    const risk = asString(members.security_risk)
    const mark = riskMark(risk)
    const text = action === undefined || action === null ? 'cannot be done' : actionText(action)
    const [first = '', ...more] = sanitizeLines(this.#relativePaths(text))
    const displayed = truncateToWidth(first, this.#columns - name.length - mark.length - 5)
    const style = risk === 'HIGH' ? 'red' : 'yellow'
    const head = `  ${paint('cyan', `▸ ${name}`)}${mark && paint(style, mark)} ${displayed}\n`
    return this.#label('Agent') + head + this.#lines(more) + this.#details(asObject(action))
  }

  /** Details of an action after its first line: tasks of a plan, lines of an edit. */
  #details(action: JsonObject): string {
    if (action.kind === 'TaskTrackerAction' && Array.isArray(action.task_list)) {
      return action.task_list
        .map(asObject)
        .map(({ title, status }) =>
          this.#line(`${statusMarks.get(asString(status)) ?? '[ ]'} ${sanitizeLine(asString(title))}`),
        )
        .join('')
    }
    if (action.command !== 'str_replace') return ''
    const lines = (text: unknown, mark: string, style: Style) =>
      this.#lines(
        sanitizeLines(withoutLastLineFeed(asString(text))).map((line) => `${mark} ${line}`),
        style,
      )
    return lines(action.old_str, '-', 'red') + lines(action.new_str, '+', 'green')
  }

  #observation(members: JsonObject): string {
    const { is_error, kind } = asObject(members.observation)
    const isFailed = is_error === true
    // These say again what their action says.
    if (!isFailed && /^(Finish|Think|TaskTracker)Observation$/.test(asString(kind))) return ''
    const lines = sanitizeLines(truncate(observationText(members.observation), 50_000)).filter(
      (line) => line.trim() !== '',
    )
    return this.#lines(lines.length === 0 ? [`(${asString(kind)})`] : lines, isFailed ? 'red' : 'dim')
  }

  /** A call of an external agent: its title when it begins, and what came of it. */
  #externalCall(members: JsonObject): string {
    const { tool_call_id, title, status, is_error, content, raw_output } = members
    const id = asString(tool_call_id)
    const isEnd = status === 'completed' || status === 'failed'
    const text = truncateToWidth(sanitizeLine(this.#relativePaths(asString(title))), this.#columns - 4)
    const head = this.#externalCalls.has(id) ? '' : `${this.#label('Agent')}  ${paint('cyan', `▸ ${text}`)}\n`
    if (!isEnd) {
      this.#externalCalls.add(id)
      return head
    }
    this.#externalCalls.delete(id)
    const texts = (Array.isArray(content) ? content : [])
      .map(asObject)
      .map((block) => asString(asObject(block.content).text) || asString(block.path))
    const output = texts.filter((one) => one !== '').join('\n') || asString(raw_output)
    const lines = sanitizeLines(truncate(output, 50_000)).filter((line) => line.trim() !== '')
    const isFailed = is_error === true
    return (
      head + this.#lines(lines.length === 0 ? [`(${asString(status)})`] : lines, isFailed ? 'red' : 'dim')
    )
  }

  #state(members: JsonObject): string {
    const { key, value } = members
    // It says where in the log the conversation is, which people see.
    if (key === 'last_user_message_id') return ''
    if (key === 'leaf_event_id') return this.#navigation(value)
    if (key === 'model_notice' || key === 'left_out')
      return this.#remarkLine(asString(asObject(value).text), 'yellow')
    if (key === 'hook_execution') return this.#note(hookNote(asObject(value)))
    if (key === 'repository_consent') return this.#note(consentNote(asObject(value), this.#directory))
    if (key !== 'execution_status') return this.#remarkLine(`${asString(key)} = ${toDisplayJson(value)}`)
    if (value !== 'running' && value !== 'waiting_for_confirmation') this.#streamedText = ''
    const words = statusText(asString(value))
    return this.#remarkLine(words, value === 'waiting_for_confirmation' ? 'yellow' : 'dim')
  }

  /** The conversation continues from an earlier event: what the user takes back. */
  #navigation(target: unknown): string {
    this.#streamedText = ''
    const at = this.#userMessages.findIndex(({ before }) => before === (target ?? null))
    const message = this.#userMessages[at]
    if (message === undefined) return this.#remarkLine('back to an earlier event', 'yellow')
    this.#userMessages.length = at
    return this.#remarkLine(`back to before: ${truncate(message.text, maxMessageCharacters)}`, 'yellow')
  }

  /** In full: what did not happen must be seen. */
  #note(note: StateNote | undefined): string {
    if (note === undefined) return ''
    const { text, style, details } = note
    const lines = sanitizeLines(details.trimEnd()).filter((line) => line.trim() !== '')
    return this.#text('', `· ${text}`, style) + this.#lines(lines)
  }

  #remarkLine(words: string, style: Style = 'dim'): string {
    return `${paint(style, truncateToWidth(sanitizeLine(`· ${words}`), this.#columns))}\n`
  }

  #lines(lines: readonly string[], style: Style = 'dim'): string {
    const omitted = lines.length - headLines - tailLines
    const displayed =
      omitted <= 1
        ? lines
        : [...lines.slice(0, headLines), `… ${omitted} more lines`, ...lines.slice(-tailLines)]
    return displayed.map((line) => this.#line(this.#relativePaths(line), style)).join('')
  }

  /** A line that is safe to print. */
  #line(line: string, style: Style = 'dim'): string {
    return `    ${paint(style, truncateToWidth(line, this.#columns - 4))}\n`
  }

  /** A text in full, wrapped. */
  #text(indent: string, text: string, style?: Style): string {
    const flow = new WordWrapper({ indent, columns: this.#columns, style })
    return flow.write(text) + flow.finish()
  }

  #relativePaths(text: string): string {
    return this.#directory === undefined ? text : text.replaceAll(`${this.#directory}/`, '')
  }
}

/** The texts of content parts, or of one that is a text alone. */
function contentTexts(content: unknown): string[] {
  if (!Array.isArray(content)) return [asString(content)]
  return content.map((part) => asString(asObject(part).text)).filter((text) => text !== '')
}

const statusMarks: ReadonlyMap<string, string> = new Map([
  ['done', '[x]'],
  ['in_progress', '[~]'],
  ['todo', '[ ]'],
])

const maxCauseCharacters = 160

/**
 * `connect ECONNREFUSED 127.0.0.1:11434, trying again in 8 s (1 of 5)`, `HTTP 500 from HOST: CAUSE,
 * trying …`.
 */
function retryLine(value: unknown): string {
  const { status, code, detail, host, wait_seconds, attempt, attempts } = asObject(value)
  const text = sanitizeLine(asString(detail)).replace(/^(HTTP \d+|Cannot connect to API): /, '')
  const cause = truncate(text.replace(/[.\s]+$/, '') || asString(code), maxCauseCharacters)
  const server = sanitizeLine(asString(host))
  const isNamed = server === '' || cause.includes(server)
  const reason =
    typeof status === 'number'
      ? `HTTP ${status}${server === '' ? '' : ` from ${server}`}: ${cause}`
      : `${isNamed ? '' : `${server}: `}${cause}`
  const wait = typeof wait_seconds === 'number' ? ` in ${Math.round(wait_seconds * 10) / 10} s` : ''
  const isCounted = typeof attempt === 'number' && typeof attempts === 'number'
  return `${reason}, trying again${wait}${isCounted ? ` (${attempt} of ${attempts})` : ''}`
}
