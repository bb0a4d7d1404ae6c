/**
 * Writes `sample.jsonl`: one conversation in which an agent mends a search that misses Greek street names. The same
 * bytes each time. Run it with `node packages/cli/src/commands/sample-log/make-sample.ts`.
 */
import { writeFileSync } from 'node:fs'
import { type Event, formatInstant, must, parseInstant, validateEvent } from '@slipway/protocol'

type Kind = Event['kind']
type Of<K extends Kind> = Extract<Event, { kind: K }>
type Members<K extends Kind> = Omit<Of<K>, 'id' | 'timestamp' | 'kind'>
type Action = NonNullable<Of<'ActionEvent'>['action']>
type Observation = Of<'ObservationEvent'>['observation']

/** A call of a tool that waits for its answer. */
interface Call {
  readonly tool_name: string
  readonly tool_call_id: string
  readonly action_id: string
}

const root = '/workspace/streetbook'
const text = (words: string) => ({ type: 'text' as const, text: words })

/** Numbers that look random and are the same each time (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return (t ^ (t >>> 14)) >>> 0
  }
}

class Story {
  readonly lines: string[] = []
  readonly #next = seeded(20_260_314)
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

  user(words: string): void {
    const llm_message = { role: 'user' as const, content: [text(words)], thinking_blocks: [] }
    this.add('MessageEvent', { source: 'user', llm_message, activated_skills: [], extended_content: [] })
  }

  agent(words: string): void {
    const llm_message = { role: 'assistant' as const, content: [text(words)], thinking_blocks: [] }
    const more = { llm_response_id: this.thinks(), activated_skills: [], extended_content: [] }
    this.add('MessageEvent', { source: 'agent', llm_message, ...more })
  }

  status(value: string): void {
    this.add('ConversationStateUpdateEvent', { source: 'environment', key: 'execution_status', value })
  }

  /** The next answer of the model begins; calls after it belong to it. */
  thinks(): string {
    this.#response++
    return this.#responseId()
  }

  call(
    tool_name: string,
    action: Action | null,
    summary: string,
    more: Partial<Members<'ActionEvent'>> = {},
  ): Call {
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

  answer({ action_id, ...call }: Call, observation: Observation): void {
    this.add('ObservationEvent', { source: 'environment', ...call, observation, action_id })
  }

  /** A command and what it printed. */
  shell(command: string, summary: string, exit_code: number, output: string): void {
    this.thinks()
    const call = this.call(
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
    this.answer(call, {
      content: [text(output)],
      is_error: exit_code !== 0,
      ...more,
      kind: 'TerminalObservation',
    })
  }

  think(thought: string): void {
    this.thinks()
    const call = this.call('think', { thought, kind: 'ThinkAction' }, 'think it over')
    const content = [text('Your thought has been logged.')]
    this.answer(call, { content, is_error: false, kind: 'ThinkObservation' })
  }

  #responseId(): string {
    return `resp_${String(this.#response).padStart(3, '0')}`
  }

  #uuid(): string {
    const hex = [1, 2, 3, 4].map(() => this.#next().toString(16).padStart(8, '0')).join('')
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`
  }
}

function tool(name: string, family: string, description: string, isReadOnly: boolean) {
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

function opening(story: Story): void {
  story.add('SystemPromptEvent', {
    source: 'agent',
    system_prompt: text(
      'You are a careful software engineer. Find the cause before you change code, and test it.',
    ),
    tools: [
      { ...tool('terminal', 'Terminal', 'Run a shell command.', false), kind: 'TerminalTool' },
      { ...tool('file_editor', 'FileEditor', 'View and edit files.', false), kind: 'FileEditorTool' },
      { ...tool('read_file', 'ReadFile', 'Read a file.', true), kind: 'ReadFileTool' },
      { ...tool('grep', 'Grep', 'Find files by what is in them.', true), kind: 'GrepTool' },
      { ...tool('task_tracker', 'TaskTracker', 'Keep a list of tasks.', false), kind: 'TaskTrackerTool' },
      { ...tool('think', 'Think', 'Note a thought.', true), kind: 'ThinkTool' },
      { ...tool('finish', 'Finish', 'Say that the work is done.', true), kind: 'FinishTool' },
    ],
    dynamic_context: text(`The project is in ${root}. Today is Saturday, 14 March 2026.`),
  })
  story.user(
    'Searching the street book for "ΟΔΟΣ ΣΟΦΟΚΛΕΟΥΣ" finds nothing, although "οδός Σοφοκλέους" is in it. ' +
      '"Straße" is found all right. Please find out why and mend it. 🙏',
  )
  story.status('running')
  story.thinks()
  const plan = ['Find the search code', 'Write a failing test', 'Mend it', 'Run all tests']
  const task_list = plan.map((title, n) => ({
    title,
    notes: '',
    status: n === 0 ? ('in_progress' as const) : ('todo' as const),
  }))
  const planned = story.call(
    'task_tracker',
    { command: 'plan', task_list, kind: 'TaskTrackerAction' },
    'plan the work in four steps',
    { thought: [text('I start with a plan, then I look for the place where case is compared.')] },
  )
  const content = [text('Task list updated: 4 tasks.')]
  story.answer(planned, {
    content,
    is_error: false,
    command: 'plan',
    task_list,
    kind: 'TaskTrackerObservation',
  })
}

const before =
  'export const matches = (name: string, needle: string) =>\n  name.toLowerCase().includes(needle.toLowerCase())\n'
const after =
  "import { fold } from './fold.ts'\n\nexport const matches = (name: string, needle: string) => fold(name).includes(fold(needle))\n"

function findingTheCause(story: Story): void {
  story.thinks()
  const listing = story.call(
    'list_directory',
    { dir_path: root, recursive: false, kind: 'ListDirectoryAction' },
    'see what is there',
  )
  const modified_time = '2026-03-13T18:00:00'
  story.answer(listing, {
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
  story.thinks()
  const where = { pattern: 'toLowerCase', path: `${root}/src` }
  const grepped = story.call('grep', { ...where, kind: 'GrepAction' }, 'find where case is compared')
  const found = {
    matches: [`${root}/src/search.ts`],
    pattern: where.pattern,
    search_path: where.path,
    truncated: false,
  }
  story.answer(grepped, {
    content: [text('src/search.ts')],
    is_error: false,
    ...found,
    kind: 'GrepObservation',
  })
  story.thinks()
  const file_path = `${root}/src/search.ts`
  const reading = story.call('read_file', { file_path, kind: 'ReadFileAction' }, 'read the search')
  const shown = { file_path, file_content: before, is_truncated: false, lines_shown: [1, 2], total_lines: 2 }
  story.answer(reading, { content: [text(before)], is_error: false, ...shown, kind: 'ReadFileObservation' })
  story.think(
    'A capital sigma at the end of a word becomes ς when lower-cased, and σ elsewhere. So "ΟΔΟΣ" inside ' +
      '"ΟΔΟΣ ΣΟΦΟΚΛΕΟΥΣ" and "οδός" do not meet; and the accents differ too.',
  )
  story.add('TokenEvent', {
    source: 'agent',
    prompt_token_ids: [101, 2054, 2003, 1096, 102],
    response_token_ids: [64, 8, 15],
  })
  story.shell(
    'npm test',
    'run the tests as they are',
    0,
    '✔ finds a street by part of its name\n✔ finds Straße\n2 passed',
  )
}

function firstAttempt(story: Story): void {
  story.thinks()
  const file_path = `${root}/test/greek.test.ts`
  const body =
    "test('a capital final sigma is found', () => assert(matches('οδος Σοφοκλεους', 'ΟΔΟΣ ΣΟΦ')))\n"
  const writing = story.call(
    'write_file',
    { file_path, content: body, kind: 'WriteFileAction' },
    'write a test that fails',
    {
      thought: [text('First a test that shows the fault, without accents, so that it is about sigma alone.')],
    },
  )
  const written = { file_path, is_new_file: true, new_content: body }
  story.answer(writing, {
    content: [text('Wrote 1 line.')],
    is_error: false,
    ...written,
    kind: 'WriteFileObservation',
  })
  story.shell('npm test', 'see the new test fail', 1, '✖ a capital final sigma is found\n2 passed, 1 failed')
  story.add('LLMCompletionLogEvent', {
    source: 'environment',
    filename: 'completion-0007.json',
    log_data: '{"response":{"id":"resp_007","usage":{"prompt_tokens":1841,"completion_tokens":212}}}',
    model_name: 'example/model',
    usage_id: 'agent',
  })
  story.thinks()
  const edit = {
    file_path: `${root}/src/search.ts`,
    old_string: 'toLowerCase()',
    new_string: "toLocaleLowerCase('el')",
  }
  const editing = story.call(
    'edit',
    { ...edit, expected_replacements: 2, kind: 'EditAction' },
    'lower-case by Greek rules',
  )
  const edited = { file_path: edit.file_path, is_new_file: false, replacements_made: 2 }
  story.answer(editing, {
    content: [text('2 replacements.')],
    is_error: false,
    ...edited,
    kind: 'EditObservation',
  })
  story.shell(
    'npm test',
    'see whether that was it',
    1,
    '✖ a capital final sigma is found\n2 passed, 1 failed',
  )
  story.user('Please no rule for Greek alone: the book also has the streets of München, Βόλος and Łódź.')
}

function lookingItUp(story: Story): void {
  story.thinks()
  const url = 'https://letters.example/case-folding'
  const navigating = story.call(
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
  story.answer(navigating, { content: [text(page)], is_error: false, kind: 'BrowserObservation' })
  story.thinks()
  const pattern = 'src/**/*.ts'
  const globbing = story.call('glob', { pattern, path: root, kind: 'GlobAction' }, 'list the sources')
  const asking = story.call(
    'tracker_lookup',
    { data: { query: 'sigma', limit: 3 }, kind: 'MCPToolAction' },
    'look for older reports',
  )
  const files = [`${root}/src/index.ts`, `${root}/src/search.ts`]
  story.answer(globbing, {
    content: [text(files.join('\n'))],
    is_error: false,
    files,
    pattern,
    search_path: root,
    truncated: false,
    kind: 'GlobObservation',
  })
  story.answer(asking, {
    content: [
      text("[Tool 'tracker_lookup' executed.]"),
      text('#31 Suche findet ΒΟΛΟΣ nicht (offen, 2 Jahre alt)'),
    ],
    is_error: false,
    tool_name: 'tracker_lookup',
    kind: 'MCPToolObservation',
  })
  story.thinks()
  const { action_id: _, ...wrong } = story.call('python', null, 'try the folding in Python')
  const error =
    "There is no tool 'python'. Tools: terminal, file_editor, read_file, grep, task_tracker, think, finish"
  story.add('AgentErrorEvent', { source: 'agent', ...wrong, error })
}

function mending(story: Story): void {
  story.thinks()
  const path = `${root}/src/search.ts`
  const editing = story.call(
    'file_editor',
    { command: 'str_replace', path, old_str: before, new_str: after, kind: 'FileEditorAction' },
    'compare folded text on both sides',
    { thought: [text('Fold both sides, code point by code point: σ equals ς, and ß does not become ss.')] },
  )
  const edited = {
    command: 'str_replace' as const,
    path,
    prev_exist: true,
    old_content: before,
    new_content: after,
  }
  story.answer(editing, {
    content: [text('The file has been edited.')],
    is_error: false,
    ...edited,
    kind: 'FileEditorObservation',
  })
  story.shell('npm test', 'run all tests', 0, '✔ a capital final sigma is found\n3 passed')
  story.thinks()
  const command = 'git push origin HEAD'
  const push = { command, is_input: false, reset: false, kind: 'TerminalAction' as const }
  const pushing = story.call('terminal', push, 'publish the change', { security_risk: 'HIGH' })
  story.status('waiting_for_confirmation')
  const rejection_reason = 'Not yet: I want to read it first.'
  story.add('UserRejectObservation', {
    source: 'environment',
    ...pushing,
    rejection_reason,
    rejection_source: 'user',
  })
  story.status('idle')
  story.user('Reads well. Please add a test that "Strasse" does not find "Straße": ß is not ss here.')
  story.status('running')
}

function theEnd(story: Story): void {
  story.add('CondensationRequest', { source: 'environment' })
  const forgotten = story.lines.slice(3, 9).map((line) => String((JSON.parse(line) as { id: string }).id))
  const summary = 'The search folds both sides now; a test for the final sigma passes. Open: a test for ß.'
  const condensed = {
    forgotten_event_ids: forgotten,
    summary,
    summary_offset: 2,
    llm_response_id: story.thinks(),
  }
  story.add('Condensation', { source: 'environment', ...condensed })
  story.add('CondensationSummaryEvent', { source: 'environment', summary })
  story.add('PauseEvent', { source: 'user' })
  story.status('paused')
  story.user('Back with a coffee ☕ – weiter geht’s.')
  story.status('running')
  const detail = 'The model refused for now: too many requests. Try again in a minute.'
  story.add('ConversationErrorEvent', { source: 'environment', code: 'LLMRateLimitError', detail })
  story.status('error')
  story.status('running')
  story.shell('npm test -- --grep ß', 'run the test for sharp s', 0, '✔ ß is not ss\n1 passed')
  story.thinks()
  const message =
    'Die Suche findet jetzt „ΟΔΟΣ“ wie „οδος“; ß bleibt ß. Four tests pass. Η αναζήτηση δουλεύει. 🎉'
  const finishing = story.call('finish', { message, kind: 'FinishAction' }, 'say what was done')
  story.answer(finishing, { content: [text(message)], is_error: false, kind: 'FinishObservation' })
  story.agent(
    'Accents are still compared as they are: "οδός" with its accent is found by "ΟΔΌΣ". Shall I look at that too?',
  )
  story.status('finished')
}

/** The lines of `sample.jsonl`, each without its LF. */
export function sampleLines(): readonly string[] {
  const story = new Story()
  for (const tell of [opening, findingTheCause, firstAttempt, lookingItUp, mending, theEnd]) tell(story)
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
