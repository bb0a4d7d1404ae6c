import type { Hint } from '@slipway/client'
import { actionText, json, type Members, membersOf, textOf } from './action-text.ts'
import { eventLine, statusWords } from './event-line.ts'
import { cut, fit, visible, visibleLines } from './sanitize.ts'
import { paint } from './terminal.ts'
import { Flow } from './word-wrapper.ts'

type Style = Parameters<typeof paint>[0]

/** Longer texts of others are cut; what the agent says is shown in full. */
const maxCharacters = 2_000
/** Lines of a result that are shown: so many from its beginning and so many from its end. */
const headLines = 3
const tailLines = 5

/**
 * A conversation as people follow it: hints and events in, text to be printed out, safe and no wider than the terminal. What
 * was shown as it came is not shown again with its event, and what was missed is completed.
 */
export class Steps {
  readonly #columns: number
  readonly #directory: string | undefined
  #flow: { readonly kind: 'content' | 'reasoning'; readonly flow: Flow } | undefined
  #said = ''
  #speaker = ''

  /** `directory`: files below it are shown with the rest of their path. */
  constructor(options: { readonly columns: number; readonly directory?: string | undefined }) {
    this.#columns = Math.max(20, options.columns)
    this.#directory = options.directory
  }

  hint(hint: Hint): string {
    if (hint.kind !== 'StreamingDeltaEvent') return ''
    const { content = '', reasoning_content = '' } = hint
    this.#said += content
    return this.#speak('reasoning', reasoning_content) + this.#speak('content', content)
  }

  /** Takes any JSON value: kept events of other versions have kinds and shapes of their own. */
  event(event: unknown): string {
    const members = membersOf(event)
    switch (members.kind) {
      case 'MessageEvent':
        return this.#message(members)
      case 'ActionEvent':
        return this.#agentSays(partsOf(members.thought).join('')) + this.#action(members)
      case 'ObservationEvent':
        return this.#endFlow() + this.#observation(members)
      case 'UserRejectObservation':
        return this.#endFlow() + this.#text('    ', eventLine(event).summary, 'yellow')
      case 'AgentErrorEvent':
        return this.#endFlow() + this.#text('    ', eventLine(event).summary, 'red')
      case 'ConversationErrorEvent':
        this.#said = ''
        return this.#endFlow() + this.#text('', `✗ ${textOf(members.code)}: ${textOf(members.detail)}`, 'red')
      case 'ConversationStateUpdateEvent':
        return this.#endFlow() + this.#state(members)
      case 'SystemPromptEvent': {
        const tools = Array.isArray(members.tools) ? members.tools.length : 0
        return this.#endFlow() + this.#remark(`system prompt, ${tools} tools`)
      }
      default: {
        const { kind, summary } = eventLine(event)
        return this.#endFlow() + this.#remark(`${kind} ${summary}`)
      }
    }
  }

  #message(members: Members): string {
    const message = membersOf(members.llm_message)
    const parts = partsOf(message.content)
    if (members.source === 'agent') return this.#agentSays(parts.join(''))
    const name = members.source === 'user' ? 'You' : 'Environment'
    return this.#endFlow() + this.#label(name) + this.#text('  ', cut(parts.join('\n'), maxCharacters))
  }

  /** The whole of what the agent says, of which a part may have been shown. */
  #agentSays(text: string): string {
    const said = this.#said
    this.#said = ''
    const isGoingOn = said !== '' && text.startsWith(said)
    return (
      (isGoingOn ? '' : this.#endFlow()) +
      this.#speak('content', isGoingOn ? text.slice(said.length) : text) +
      this.#endFlow()
    )
  }

  #speak(kind: 'content' | 'reasoning', text: string): string {
    if (text === '') return ''
    let out = ''
    if (this.#flow?.kind !== kind) {
      out += this.#endFlow() + this.#label('Agent')
      const style = kind === 'reasoning' ? { paint: (words: string) => paint('dim', words) } : {}
      this.#flow = { kind, flow: new Flow({ indent: '  ', columns: this.#columns, ...style }) }
    }
    return out + this.#flow.flow.add(text)
  }

  #endFlow(): string {
    const rest = this.#flow?.flow.end() ?? ''
    this.#flow = undefined
    return rest
  }

  #label(name: string): string {
    if (this.#speaker === name) return ''
    this.#speaker = name
    return `${paint('bold', name)}\n`
  }

  #action(members: Members): string {
    const { action } = members
    const name = fit(visible(textOf(members.tool_name)), Math.ceil(this.#columns / 3))
    const { kind, message } = membersOf(action)
    if (kind === 'FinishAction') return this.#label('Agent') + this.#text('  ', textOf(message))
    const risk = textOf(members.security_risk)
    const mark = risk === 'HIGH' || risk === 'MEDIUM' ? ` [${risk}]` : ''
    const words = action === undefined || action === null ? 'cannot be done' : actionText(action)
    const [first = '', ...more] = visibleLines(this.#relative(words))
    const shown = fit(first, this.#columns - name.length - mark.length - 5)
    const style = risk === 'HIGH' ? 'red' : 'yellow'
    const head = `  ${paint('cyan', `▸ ${name}`)}${mark && paint(style, mark)} ${shown}\n`
    return this.#label('Agent') + head + this.#lines(more) + this.#details(membersOf(action))
  }

  /** What an action does beyond its first line: the tasks of a plan, the lines of an edit. */
  #details(action: Members): string {
    if (action.kind === 'TaskTrackerAction' && Array.isArray(action.task_list)) {
      return action.task_list
        .map(membersOf)
        .map(({ title, status }) =>
          this.#line(`${marks.get(textOf(status)) ?? '[ ]'} ${visible(textOf(title))}`),
        )
        .join('')
    }
    if (action.command !== 'str_replace') return ''
    const lines = (text: unknown, mark: string, style: Style) =>
      this.#lines(
        visibleLines(textOf(text)).map((line) => `${mark} ${line}`),
        style,
      )
    return lines(action.old_str, '-', 'red') + lines(action.new_str, '+', 'green')
  }

  #observation(members: Members): string {
    const { content, is_error, kind } = membersOf(members.observation)
    const isFailed = is_error === true
    // These say again what their action says.
    if (!isFailed && /^(Finish|Think|TaskTracker)Observation$/.test(textOf(kind))) return ''
    const lines = visibleLines(cut(partsOf(content).join('\n'), 50_000)).filter((line) => line.trim() !== '')
    return this.#lines(lines.length === 0 ? [`(${textOf(kind)})`] : lines, isFailed ? 'red' : 'dim')
  }

  #state(members: Members): string {
    const { key, value } = members
    if (key !== 'execution_status') return this.#remark(`${textOf(key)} = ${json(value)}`)
    this.#said = ''
    const words = statusWords(textOf(value))
    return this.#remark(words, value === 'waiting_for_confirmation' ? 'yellow' : 'dim')
  }

  #remark(words: string, style: Style = 'dim'): string {
    return `${paint(style, fit(visible(`· ${words}`), this.#columns))}\n`
  }

  #lines(lines: readonly string[], style: Style = 'dim'): string {
    const left = lines.length - headLines - tailLines
    const shown =
      left <= 1 ? lines : [...lines.slice(0, headLines), `… ${left} more lines`, ...lines.slice(-tailLines)]
    return shown.map((line) => this.#line(this.#relative(line), style)).join('')
  }

  /** A line that is safe to print. */
  #line(line: string, style: Style = 'dim'): string {
    return `    ${paint(style, fit(line, this.#columns - 4))}\n`
  }

  /** A text in full, wrapped. */
  #text(indent: string, text: string, style?: Style): string {
    const flow = new Flow({
      indent,
      columns: this.#columns,
      ...(style === undefined ? {} : { paint: (words: string) => paint(style, words) }),
    })
    return flow.add(text) + flow.end()
  }

  #relative(text: string): string {
    return this.#directory === undefined ? text : text.replaceAll(`${this.#directory}/`, '')
  }
}

/** The texts of content parts, or of one that is a text alone. */
function partsOf(content: unknown): string[] {
  if (!Array.isArray(content)) return [textOf(content)]
  return content.map((part) => textOf(membersOf(part).text)).filter((text) => text !== '')
}

const marks: ReadonlyMap<string, string> = new Map([
  ['done', '[x]'],
  ['in_progress', '[~]'],
  ['todo', '[ ]'],
])
