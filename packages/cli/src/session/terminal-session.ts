import { questionLines } from '../output/question.ts'
import { sanitizeLine } from '../output/sanitize.ts'
import { paint } from '../output/terminal.ts'
import { Editor } from './input/editor.ts'
import { addToHistory } from './input/history.ts'
import { type Key, KeyReader } from './input/keys.ts'
import { suggestFiles } from './input/mentions.ts'
import { alwaysPattern } from './pending-text.ts'
import { LineBuffer } from './screen/line-buffer.ts'
import { LiveRegion } from './screen/live-region.ts'
import { drawView, type Question } from './screen/view.ts'
import type { AskedActions, Session, SessionScreen } from './session.ts'
import { runSlashCommand, suggestCommands } from './slash-commands.ts'

interface TerminalSessionOptions {
  readonly history: readonly string[]
  /** Where the history is kept. */
  readonly dataDirectory: string
  /** Where `@file` looks. */
  readonly directory: string
  readonly signal: AbortSignal
}

/** A question on the screen. */
interface ShownQuestion {
  readonly asked: AskedActions
  readonly columns: number
  readonly lines: readonly string[]
  /** The first line in view after a key has moved it. */
  top: number | undefined
  /** Lines in view at once; 0 when all of them are. */
  room: number
}

const escapeDelayMs = 50
const exitDelayMs = 2_000

/** The terminal of a session: draws it, and turns keys into what the user wants. */
export class TerminalSession implements SessionScreen {
  readonly #options: TerminalSessionOptions
  readonly #region: LiveRegion
  readonly #editor: Editor
  readonly #output = new LineBuffer()
  readonly #keys = new KeyReader()
  readonly #done = Promise.withResolvers<void>()
  #session: Session | undefined
  #notice = ''
  #suggestions: readonly string[] = []
  #chosen = 0
  /** The actions whose rejection waits for its reason. */
  #rejected: AskedActions | undefined
  /** The question as it was drawn last, with its lines for this many columns. */
  #shown: ShownQuestion | undefined
  #exitAskedAt = 0
  #isClosed = false

  constructor(options: TerminalSessionOptions) {
    this.#options = options
    this.#editor = new Editor(options.history)
    this.#region = new LiveRegion({
      write: (text) => void process.stdout.write(text),
      get columns() {
        return process.stdout.columns || 80
      },
    })
  }

  get columns(): number {
    return process.stdout.columns || 80
  }

  print(text: string): void {
    const lines = this.#output.push(text)
    if (lines !== '' && !this.#isClosed) this.#region.print(lines)
    this.update()
  }

  update(): void {
    const session = this.#session
    if (session === undefined || this.#isClosed) return
    const frame = drawView(
      {
        streaming: this.#output.partial,
        activity: this.#activity(session),
        question: this.#question(session),
        tasks: session.tasks,
        queue: session.queue,
        editor: this.#editor.state,
        suggestions: this.#suggestions,
        chosen: this.#chosen,
        facts: [this.#notice || hintOf(session), ...session.facts],
      },
      this.columns,
      process.stdout.rows || 24,
    )
    if (this.#shown !== undefined) this.#shown.room = frame.questionRoom
    this.#region.draw(frame)
  }

  /** Shows a message until the next key. */
  notify(text: string): void {
    this.#notice = text
    this.update()
  }

  /** Runs until the user leaves or the signal aborts. */
  async run(session: Session): Promise<void> {
    this.#session = session
    const { stdin, stdout } = process
    const { signal } = this.#options
    const decoder = new TextDecoder()
    let escapeTimer: NodeJS.Timeout | undefined
    const read = (chunk: Buffer) => {
      clearTimeout(escapeTimer)
      for (const key of this.#keys.push(decoder.decode(chunk, { stream: true }))) this.#onKey(key)
      if (!this.#keys.isWaiting) return
      escapeTimer = setTimeout(() => {
        for (const key of this.#keys.flush()) this.#onKey(key)
      }, escapeDelayMs)
    }
    const resize = () => this.update()
    // The seconds of a run continue.
    const ticker = setInterval(() => session.isRunning && this.update(), 1_000)
    stdin.setRawMode(true)
    stdin.on('data', read)
    stdin.once('end', () => this.#done.resolve())
    // The terminal was closed. Both stay: what is written to it from here on fails too, and is no error.
    stdin.on('error', () => this.#done.resolve())
    process.on('SIGHUP', () => this.#done.resolve())
    stdin.resume()
    stdout.on('resize', resize)
    signal.addEventListener('abort', () => this.#done.resolve(), { once: true })
    stdout.write('\u001b[?2004h')
    this.update()
    try {
      await this.#done.promise
    } finally {
      clearInterval(ticker)
      clearTimeout(escapeTimer)
      stdin.off('data', read)
      stdout.off('resize', resize)
      this.#region.close()
      this.#isClosed = true
      stdout.write('\u001b[?2004l\u001b[?25h')
      stdin.setRawMode(false)
      stdin.pause()
    }
  }

  close(): void {
    this.#done.resolve()
  }

  /** Lets other prompts use the terminal. */
  async suspend(work: () => Promise<void>): Promise<void> {
    this.#region.close()
    this.#isClosed = true
    process.stdin.setRawMode(false)
    process.stdout.write('\u001b[?2004l')
    try {
      await work()
    } finally {
      this.#isClosed = false
      process.stdin.setRawMode(true)
      process.stdin.resume()
      process.stdout.write('\u001b[?2004h')
      this.update()
    }
  }

  #activity(session: Session): string {
    if (session.connection !== '') return session.connection
    if (!session.isRunning) return ''
    const seconds = Math.max(0, Math.floor((Date.now() - session.startedAt) / 1000))
    return `● working, ${seconds} s · Esc interrupts`
  }

  #question(session: Session): Question | undefined {
    const { pending } = session
    if (session.status !== 'waiting_for_confirmation') return undefined
    const only = (head: string): Question => ({ head, lines: [], top: undefined, keys: '' })
    if (this.#rejected !== undefined) return only('What should the agent know? Enter sends it.')
    if (pending.length === 0)
      return only('The repository brings hooks or agents: decide with "slipway trust".')
    const always = alwaysPattern(pending)
    const { lines, top } = this.#showQuestion(session)
    return {
      head: 'Allow this?',
      ...{ lines, top },
      keys: `  y yes · n no, and say why · s no, and stop${always === undefined ? '' : ` · a always: ${sanitizeLine(always)}`}`,
    }
  }

  #showQuestion(session: Session): ShownQuestion {
    const { columns } = this
    const { asked } = session
    if (this.#shown?.asked.digest !== asked.digest || this.#shown.columns !== columns) {
      const rows = session.pending.flatMap((action) => questionLines(action, Math.max(10, columns - 3)))
      const lines = rows.map((row) => `  ${row}`)
      this.#shown = { asked, columns, lines, top: undefined, room: 0 }
    }
    return this.#shown
  }

  /** Whether the key moves a question that is longer than the screen. */
  #scrollKey(name: string): boolean {
    const shown = this.#shown
    if (shown === undefined || shown.room === 0) return false
    const { room, lines, top } = shown
    const steps = new Map([
      ...([
        ['up', -1],
        ['page-up', -room],
        ['down', 1],
      ] as const),
      // At first the beginning and the end are in view.
      ['page-down', top === undefined ? Math.ceil((room + 1) / 2) : room],
    ])
    const step = steps.get(name)
    if (step === undefined) return false
    const next = (top ?? 0) + step
    shown.top = next <= 0 ? undefined : Math.min(lines.length - room, next)
    return true
  }

  #onKey(key: Key): void {
    if (this.#isClosed) return
    this.#notice = ''
    const session = this.#session
    if (session === undefined) return
    const isAnswer =
      session.pending.length > 0 && this.#rejected === undefined && this.#editor.state.text === ''
    const isHandled =
      isAnswer &&
      (key.kind === 'text'
        ? this.#answerKey(session, key.text)
        : key.kind === 'key' && this.#scrollKey(key.name))
    if (!isHandled && (key.kind !== 'key' || !this.#controlKey(session, key.name))) {
      this.#editor.handle(key)
      this.#suggest()
    }
    this.update()
  }

  /** Whether the text was an answer to the question. */
  #answerKey(session: Session, text: string): boolean {
    const always = alwaysPattern(session.pending)
    const { asked } = this.#shown ?? session
    if (text === 'y') this.#do(() => session.answer(true, { asked }))
    else if (text === 's') this.#do(() => session.answer(false, { asked }))
    else if (text === 'n') this.#rejected = asked
    else if (text === 'a' && always !== undefined) this.#do(() => session.allowAlways(always, asked))
    else return false
    return true
  }

  #controlKey(session: Session, name: string): boolean {
    const hasText = this.#editor.state.text !== ''
    switch (name) {
      case 'enter':
        this.#enter(session)
        return true
      case 'tab':
        this.#complete()
        return true
      case 'escape':
        if (this.#rejected !== undefined) this.#rejected = undefined
        else if (this.#suggestions.length > 0) this.#suggestions = []
        else if (session.isRunning) this.#do(() => session.interrupt())
        return true
      case 'ctrl-c':
        this.#ctrlC(session)
        return true
      case 'ctrl-d':
        if (!hasText) this.close()
        return !hasText
      case 'ctrl-l':
        process.stdout.write('\u001b[2J\u001b[H')
        return true
      case 'ctrl-o':
        this.#open(session)
        return true
      case 'up':
      case 'down':
        if (this.#suggestions.length === 0) return false
        this.#chosen =
          (this.#chosen + (name === 'up' ? -1 : 1) + this.#suggestions.length) % this.#suggestions.length
        return true
      default:
        return false
    }
  }

  /** First empties the input, then interrupts, then leaves. */
  #ctrlC(session: Session): void {
    if (this.#editor.state.text !== '') this.#editor.clear()
    else if (session.isRunning) this.#do(() => session.interrupt())
    else if (Date.now() - this.#exitAskedAt < exitDelayMs) this.close()
    else {
      this.#exitAskedAt = Date.now()
      this.#notice = 'Ctrl-C again leaves'
    }
  }

  #open(session: Session): void {
    if (session.lastResult === '') this.#notice = 'There is no result yet'
    else this.print(`${paint('bold', 'The last result')}\n${session.lastResult}\n`)
  }

  #enter(session: Session): void {
    const { text, cursor } = this.#editor.state
    if (text.endsWith('\\') && cursor === text.length) {
      this.#editor.replace(`${text.slice(0, -1)}\n`)
      return
    }
    if (text.startsWith('/') && this.#suggestions.length > 0 && !text.includes(' ')) this.#complete()
    this.#suggestions = []
    const message = this.#editor.submit().trim()
    if (this.#rejected !== undefined) {
      const asked = this.#rejected
      this.#rejected = undefined
      this.#do(() => session.answer(false, { reason: message || 'Not now.', asked }))
      return
    }
    if (message === '') return
    addToHistory(this.#options.dataDirectory, message).catch(() => {})
    if (message.startsWith('/')) this.#do(() => runSlashCommand(message, { session, terminal: this }))
    else this.#do(() => session.send(message))
  }

  #complete(): void {
    const chosen = this.#suggestions[this.#chosen]
    if (chosen === undefined) return
    const { text, cursor } = this.#editor.state
    const [word = ''] = chosen.split(' ')
    const start = text.slice(0, cursor).search(/\S*$/)
    const end = word.endsWith('/') ? '' : ' '
    this.#editor.replace(
      text.slice(0, start) + word + end + text.slice(cursor),
      start + word.length + end.length,
    )
    this.#suggest()
  }

  #suggest(): void {
    const { text, cursor } = this.#editor.state
    this.#chosen = 0
    this.#suggestions = text.startsWith('/') ? suggestCommands(text) : []
    const before = text.slice(0, cursor)
    if (!/(?:^|\s)@\S*$/.test(before)) return
    this.#do(async () => {
      const files = await suggestFiles(before, this.#options.directory)
      if (this.#editor.state.text !== text) return
      this.#suggestions = files
      this.update()
    })
  }

  #do(work: () => Promise<unknown>): void {
    work().catch((error: Error) => this.notify(`✗ ${sanitizeLine(error.message)}`))
  }
}

function hintOf(session: Session): string {
  const words: Readonly<Record<string, string>> = {
    error: 'failed',
    stuck: 'the agent repeats itself',
    paused: 'interrupted',
  }
  return words[session.status] ?? (session.isRunning ? 'Enter queues a message' : '/help')
}
