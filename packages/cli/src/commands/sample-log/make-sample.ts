/**
 * Writes `sample.jsonl`: one conversation in which an agent mends a search that misses Greek street names. The same
 * bytes each time. Run it with `node packages/cli/src/commands/sample-log/make-sample.ts`.
 */
import { writeFileSync } from 'node:fs'
import { type Event, formatInstant, must, parseInstant, validateEvent } from '@slipway/protocol'

type Kind = Event['kind']
type EventOfKind<K extends Kind> = Extract<Event, { kind: K }>
type Members<K extends Kind> = Omit<EventOfKind<K>, 'id' | 'timestamp' | 'kind'>
type Action = NonNullable<EventOfKind<'ActionEvent'>['action']>
type Observation = EventOfKind<'ObservationEvent'>['observation']

/** A call of a tool that waits for its answer. */
interface PendingCall {
  readonly tool_name: string
  readonly tool_call_id: string
  readonly action_id: string
}

const root = '/workspace/streetbook'
const text = (words: string) => ({ type: 'text' as const, text: words })

/** Numbers that look random and are the same each time (mulberry32). */
function seededRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return (t ^ (t >>> 14)) >>> 0
  }
}

class SampleLog {
  readonly lines: string[] = []
  readonly #next = seededRandom(20_260_314)
  #instant = must(parseInstant('2026-03-14T09:26:53.589793Z'), 'the start')
  #response = 0
  #calls = 0

  add<K extends Kind>(kind: K, members: Members<K>): string {
    this.#instant += 40_000 + (this.#next() % 4_000_000)
    const id = this.#uuid()
    const event = { id, timestamp: formatInstant(this.#instant), ...members, kind }
    const faults = validateEvent(event)
    if (faults.length > 0) throw new Error(`${kind}: ${JSON.stringify(faults)}`)
    this.lines.push(JSON.stringify(event))
    return id
  }

  addUserMessage(words: string): void {
    const llm_message = { role: 'user' as const, content: [text(words)], thinking_blocks: [] }
    this.add('MessageEvent', { source: 'user', llm_message, activated_skills: [], extended_content: [] })
  }

  addAgentMessage(words: string): void {
    const llm_message = { role: 'assistant' as const, content: [text(words)], thinking_blocks: [] }
    const more = { llm_response_id: this.nextResponse(), activated_skills: [], extended_content: [] }
    this.add('MessageEvent', { source: 'agent', llm_message, ...more })
  }

  addStatus(value: string): void {
    this.add('ConversationStateUpdateEvent', { source: 'environment', key: 'execution_status', value })
  }

  /** The next answer of the model begins; calls after it belong to it. */
  nextResponse(): string {
    this.#response++
    return this.#responseId()
  }

  addAction(
    tool_name: string,
    action: Action | null,
    summary: string,
    more: Partial<Members<'ActionEvent'>> = {},
  ): PendingCall {
    const tool_call_id = `call_${String(++this.#calls).padStart(3, '0')}`
    const { kind: _, ...input } = action ?? { kind: '' }
    const action_id = this.add('ActionEvent', {
      source: 'agent',
      thought: [],
      thinking_blocks: [],
      ...(action === null ? {} : { action }),
      tool_name,
      tool_call_id,
      tool_call: {
        id: tool_call_id,
        name: tool_name,
        arguments: JSON.stringify(input),
        origin: 'completion',
      },
      llm_response_id: this.#responseId(),
      security_risk: 'LOW',
      summary,
      ...more,
    })
    return { tool_name, tool_call_id, action_id }
  }

  addObservation({ action_id, ...call }: PendingCall, observation: Observation): void {
    this.add('ObservationEvent', { source: 'environment', ...call, observation, action_id })
  }

  /** A command and what it printed. */
  addCommand(command: string, summary: string, exit_code: number, output: string): void {
    this.nextResponse()
    const call = this.addAction(
      'terminal',
      { command, is_input: false, reset: false, kind: 'TerminalAction' },
      summary,
    )
    const metadata = {
      exit_code,
      pid: 812,
      username: 'dev',
      hostname: 'box',
      working_dir: root,
      prefix: '',
      suffix: '',
    }
    const more = { command, exit_code, timeout: false, metadata }
    this.addObservation(call, {
      content: [text(output)],
      is_error: exit_code !== 0,
      ...more,
      kind: 'TerminalObservation',
    })
  }

  addThought(thought: string): void {
    this.nextResponse()
    const call = this.addAction('think', { thought, kind: 'ThinkAction' }, 'think it over')
    const content = [text('Your thought has been logged.')]
    this.addObservation(call, { content, is_error: false, kind: 'ThinkObservation' })
  }

  #responseId(): string {
    return `resp_${String(this.#response).padStart(3, '0')}`
  }

  #uuid(): string {
    const hex = [1, 2, 3, 4].map(() => this.#next().toString(16).padStart(8, '0')).join('')
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`
  }
}

function toolListing(name: string, family: string, description: string, isReadOnly: boolean) {
  return {
    description,
    action_type: `${family}Action`,
    observation_type: `${family}Observation`,
    annotations: {
      title: name,
      readOnlyHint: isReadOnly,
      destructiveHint: !isReadOnly,
      idempotentHint: isReadOnly,
      openWorldHint: name === 'terminal',
    },
    title: name,
  }
}

function addOpening(story: SampleLog): void {
  story.add('SystemPromptEvent', {
    source: 'agent',
    system_prompt: text(
      'You are a careful software engineer. Find the cause before you change code, and test it.',
    ),
    tools: [
      { ...toolListing('terminal', 'Terminal', 'Run a shell command.', false), kind: 'TerminalTool' },
      { ...toolListing('file_editor', 'FileEditor', 'View and edit files.', false), kind: 'FileEditorTool' },
      { ...toolListing('read_file', 'ReadFile', 'Read a file.', true), kind: 'ReadFileTool' },
      { ...toolListing('grep', 'Grep', 'Find files by what is in them.', true), kind: 'GrepTool' },
      {
        ...toolListing('task_tracker', 'TaskTracker', 'Keep a list of tasks.', false),
        kind: 'TaskTrackerTool',
      },
      { ...toolListing('think', 'Think', 'Note a thought.', true), kind: 'ThinkTool' },
      { ...toolListing('finish', 'Finish', 'Say that the work is done.', true), kind: 'FinishTool' },
    ],
    dynamic_context: text(`The project is in ${root}. Today is Saturday, 14 March 2026.`),
  })
  story.addUserMessage(
    'Searching the street book for "ΟΔΟΣ ΣΟΦΟΚΛΕΟΥΣ" finds nothing, although "οδός Σοφοκλέους" is in it. ' +
      '"Straße" is found all right. Please find out why and mend it. 🙏',
  )
  story.addStatus('running')
  story.nextResponse()
  const plan = ['Find the search code', 'Write a failing test', 'Mend it', 'Run all tests']
  const task_list = plan.map((title, n) => ({
    title,
    notes: '',
    status: n === 0 ? ('in_progress' as const) : ('todo' as const),
  }))
  const planned = story.addAction(
    'task_tracker',
    { command: 'plan', task_list, kind: 'TaskTrackerAction' },
    'plan the work in four steps',
    { thought: [text('I start with a plan, then I look for the place where case is compared.')] },
  )
  const content = [text('Task list updated: 4 tasks.')]
  story.addObservation(planned, {
    content,
    is_error: false,
    command: 'plan',
    task_list,
    kind: 'TaskTrackerObservation',
  })
}

const sourceBefore =
  'export const matches = (name: string, needle: string) =>\n  name.toLowerCase().includes(needle.toLowerCase())\n'
const sourceAfter =
  "import { fold } from './fold.ts'\n\nexport const matches = (name: string, needle: string) => fold(name).includes(fold(needle))\n"

function addInvestigation(story: SampleLog): void {
  story.nextResponse()
  const listing = story.addAction(
    'list_directory',
    { dir_path: root, recursive: false, kind: 'ListDirectoryAction' },
    'see what is there',
  )
  const modified_time = '2026-03-13T18:00:00'
  story.addObservation(listing, {
    content: [text('src/  test/  package.json')],
    is_error: false,
    dir_path: root,
    entries: ['src', 'test', 'package.json'].map((name) => ({
      name,
      path: `${root}/${name}`,
      is_directory: !name.includes('.'),
      size: name.includes('.') ? 412 : 4096,
      modified_time,
    })),
    total_count: 3,
    is_truncated: false,
    kind: 'ListDirectoryObservation',
  })
  story.nextResponse()
  const where = { pattern: 'toLowerCase', path: `${root}/src` }
  const grepped = story.addAction('grep', { ...where, kind: 'GrepAction' }, 'find where case is compared')
  const found = {
    matches: [`${root}/src/search.ts`],
    pattern: where.pattern,
    search_path: where.path,
    truncated: false,
  }
  story.addObservation(grepped, {
    content: [text('src/search.ts')],
    is_error: false,
    ...found,
    kind: 'GrepObservation',
  })
  story.nextResponse()
  const file_path = `${root}/src/search.ts`
  const reading = story.addAction('read_file', { file_path, kind: 'ReadFileAction' }, 'read the search')
  const shown = {
    file_path,
    file_content: sourceBefore,
    is_truncated: false,
    lines_shown: [1, 2],
    total_lines: 2,
  }
  story.addObservation(reading, {
    content: [text(sourceBefore)],
    is_error: false,
    ...shown,
    kind: 'ReadFileObservation',
  })
  story.addThought(
    'A capital sigma at the end of a word becomes ς when lower-cased, and σ elsewhere. So "ΟΔΟΣ" inside ' +
      '"ΟΔΟΣ ΣΟΦΟΚΛΕΟΥΣ" and "οδός" do not meet; and the accents differ too.',
  )
  story.add('TokenEvent', {
    source: 'agent',
    prompt_token_ids: [101, 2054, 2003, 1096, 102],
    response_token_ids: [64, 8, 15],
  })
  story.addCommand(
    'npm test',
    'run the tests as they are',
    0,
    '✔ finds a street by part of its name\n✔ finds Straße\n2 passed',
  )
}

function addFirstAttempt(story: SampleLog): void {
  story.nextResponse()
  const file_path = `${root}/test/greek.test.ts`
  const body =
    "test('a capital final sigma is found', () => assert(matches('οδος Σοφοκλεους', 'ΟΔΟΣ ΣΟΦ')))\n"
  const writing = story.addAction(
    'write_file',
    { file_path, content: body, kind: 'WriteFileAction' },
    'write a test that fails',
    {
      thought: [text('First a test that shows the fault, without accents, so that it is about sigma alone.')],
    },
  )
  const written = { file_path, is_new_file: true, new_content: body }
  story.addObservation(writing, {
    content: [text('Wrote 1 line.')],
    is_error: false,
    ...written,
    kind: 'WriteFileObservation',
  })
  story.addCommand(
    'npm test',
    'see the new test fail',
    1,
    '✖ a capital final sigma is found\n2 passed, 1 failed',
  )
  story.add('LLMCompletionLogEvent', {
    source: 'environment',
    filename: 'completion-0007.json',
    log_data: '{"response":{"id":"resp_007","usage":{"prompt_tokens":1841,"completion_tokens":212}}}',
    model_name: 'example/model',
    usage_id: 'agent',
  })
  story.nextResponse()
  const edit = {
    file_path: `${root}/src/search.ts`,
    old_string: 'toLowerCase()',
    new_string: "toLocaleLowerCase('el')",
  }
  const editing = story.addAction(
    'edit',
    { ...edit, expected_replacements: 2, kind: 'EditAction' },
    'lower-case by Greek rules',
  )
  const edited = { file_path: edit.file_path, is_new_file: false, replacements_made: 2 }
  story.addObservation(editing, {
    content: [text('2 replacements.')],
    is_error: false,
    ...edited,
    kind: 'EditObservation',
  })
  story.addCommand(
    'npm test',
    'see whether that was it',
    1,
    '✖ a capital final sigma is found\n2 passed, 1 failed',
  )
  story.addUserMessage(
    'Please no rule for Greek alone: the book also has the streets of München, Βόλος and Łódź.',
  )
}

function addResearch(story: SampleLog): void {
  story.nextResponse()
  const url = 'https://letters.example/case-folding'
  const navigating = story.addAction(
    'browser_navigate',
    { url, new_tab: false, kind: 'BrowserNavigateAction' },
    'read about case folding',
    {
      reasoning_content: 'Lower-casing is the wrong tool; folding is meant for comparing.',
      thinking_blocks: [
        { type: 'thinking', thinking: 'Folding maps σ, ς and Σ to one letter.', signature: 'c2lnbmF0dXJl' },
      ],
      responses_reasoning_item: {
        id: 'rs_1',
        summary: ['Fold both sides.'],
        encrypted_content: 'Z2VoZWlt',
        status: 'completed',
      },
      security_risk: 'MEDIUM',
    },
  )
  const page = 'Case folding: Σ, σ and ς are one letter when folded. ß stays ß in simple folding.'
  story.addObservation(navigating, { content: [text(page)], is_error: false, kind: 'BrowserObservation' })
  story.nextResponse()
  const pattern = 'src/**/*.ts'
  const globbing = story.addAction('glob', { pattern, path: root, kind: 'GlobAction' }, 'list the sources')
  const asking = story.addAction(
    'tracker_lookup',
    { data: { query: 'sigma', limit: 3 }, kind: 'MCPToolAction' },
    'look for older reports',
  )
  const files = [`${root}/src/index.ts`, `${root}/src/search.ts`]
  story.addObservation(globbing, {
    content: [text(files.join('\n'))],
    is_error: false,
    files,
    pattern,
    search_path: root,
    truncated: false,
    kind: 'GlobObservation',
  })
  story.addObservation(asking, {
    content: [
      text("[Tool 'tracker_lookup' executed.]"),
      text('#31 Suche findet ΒΟΛΟΣ nicht (offen, 2 Jahre alt)'),
    ],
    is_error: false,
    tool_name: 'tracker_lookup',
    kind: 'MCPToolObservation',
  })
  story.nextResponse()
  const { action_id: _, ...wrong } = story.addAction('python', null, 'try the folding in Python')
  const error =
    "There is no tool 'python'. Tools: terminal, file_editor, read_file, grep, task_tracker, think, finish"
  story.add('AgentErrorEvent', { source: 'agent', ...wrong, error })
}

function addFix(story: SampleLog): void {
  story.nextResponse()
  const path = `${root}/src/search.ts`
  const editing = story.addAction(
    'file_editor',
    { command: 'str_replace', path, old_str: sourceBefore, new_str: sourceAfter, kind: 'FileEditorAction' },
    'compare folded text on both sides',
    { thought: [text('Fold both sides, code point by code point: σ equals ς, and ß does not become ss.')] },
  )
  const edited = {
    command: 'str_replace' as const,
    path,
    prev_exist: true,
    old_content: sourceBefore,
    new_content: sourceAfter,
  }
  story.addObservation(editing, {
    content: [text('The file has been edited.')],
    is_error: false,
    ...edited,
    kind: 'FileEditorObservation',
  })
  story.addCommand('npm test', 'run all tests', 0, '✔ a capital final sigma is found\n3 passed')
  story.nextResponse()
  const command = 'git push origin HEAD'
  const push = { command, is_input: false, reset: false, kind: 'TerminalAction' as const }
  const pushing = story.addAction('terminal', push, 'publish the change', { security_risk: 'HIGH' })
  story.addStatus('waiting_for_confirmation')
  const rejection_reason = 'Not yet: I want to read it first.'
  story.add('UserRejectObservation', {
    source: 'environment',
    ...pushing,
    rejection_reason,
    rejection_source: 'user',
  })
  story.addStatus('idle')
  story.addUserMessage(
    'Reads well. Please add a test that "Strasse" does not find "Straße": ß is not ss here.',
  )
  story.addStatus('running')
}

function addEnd(story: SampleLog): void {
  story.add('CondensationRequest', { source: 'environment' })
  const forgotten = story.lines.slice(3, 9).map((line) => String((JSON.parse(line) as { id: string }).id))
  const summary = 'The search folds both sides now; a test for the final sigma passes. Open: a test for ß.'
  const condensed = {
    forgotten_event_ids: forgotten,
    summary,
    summary_offset: 2,
    llm_response_id: story.nextResponse(),
  }
  story.add('Condensation', { source: 'environment', ...condensed })
  story.add('CondensationSummaryEvent', { source: 'environment', summary })
  story.add('PauseEvent', { source: 'user' })
  story.addStatus('paused')
  story.addUserMessage('Back with a coffee ☕ – weiter geht’s.')
  story.addStatus('running')
  const detail = 'The model refused for now: too many requests. Try again in a minute.'
  story.add('ConversationErrorEvent', { source: 'environment', code: 'LLMRateLimitError', detail })
  story.addStatus('error')
  story.addStatus('running')
  story.addCommand('npm test -- --grep ß', 'run the test for sharp s', 0, '✔ ß is not ss\n1 passed')
  story.nextResponse()
  const message =
    'Die Suche findet jetzt „ΟΔΟΣ“ wie „οδος“; ß bleibt ß. Four tests pass. Η αναζήτηση δουλεύει. 🎉'
  const finishing = story.addAction('finish', { message, kind: 'FinishAction' }, 'say what was done')
  story.addObservation(finishing, { content: [text(message)], is_error: false, kind: 'FinishObservation' })
  story.addAgentMessage(
    'Accents are still compared as they are: "οδός" with its accent is found by "ΟΔΌΣ". Shall I look at that too?',
  )
  story.addStatus('finished')
}

/** The lines of `sample.jsonl`, each without its LF. */
export function sampleLines(): readonly string[] {
  const story = new SampleLog()
  for (const tell of [addOpening, addInvestigation, addFirstAttempt, addResearch, addFix, addEnd]) tell(story)
  return story.lines
}

if (import.meta.main) {
  writeFileSync(
    new URL('sample.jsonl', import.meta.url),
    sampleLines()
      .map((line) => `${line}\n`)
      .join(''),
  )
}
