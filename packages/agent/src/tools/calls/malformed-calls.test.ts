import { join } from 'node:path'
import type { Action } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openFinish, openThink } from '../core/builtin.ts'
import type { Tool } from '../core/tool.ts'
import { openEdit, openWriteFile } from '../files/edit.ts'
import { openFileEditor } from '../files/file-editor.ts'
import { openListDirectory, openReadFile } from '../files/read-file.ts'
import { openGlob } from '../search/glob.ts'
import { openGrep } from '../search/grep.ts'
import { openTaskTracker } from '../tasks/task-tracker.ts'
import { openTerminal } from '../terminal/terminal.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { parseToolCall } from './parse-call.ts'

let fixtures: ToolFixtures
/** The default tools, and those of the other family. */
let tools: Record<'editor' | 'single', ReadonlyMap<string, Tool>>
beforeAll(async () => {
  fixtures = await ToolFixtures.open()
  const open = async (...factories: readonly Parameters<ToolFixtures['tool']>[0][]) => {
    const opened = await Promise.all(factories.map((factory) => fixtures.tool(factory)))
    return new Map(opened.map((tool) => [tool.name, tool]))
  }
  const common = [openTerminal, openTaskTracker, openThink, openFinish]
  const search = [openGlob, openGrep]
  tools = {
    editor: await open(...common, ...search, openFileEditor),
    single: await open(...common, ...search, openEdit, openWriteFile, openReadFile, openListDirectory),
  }
})
afterAll(() => fixtures[Symbol.asyncDispose]())

type Args = Readonly<Record<string, unknown>>

function parse(family: 'editor' | 'single', name: string, json: string): Action | string {
  const call = { id: 'c', name, arguments: json, origin: 'completion' } as const
  const read = parseToolCall(call, tools[family])
  return read.kind === 'call' ? read.action : read.error
}

interface Intended {
  readonly family: 'editor' | 'single'
  readonly name: string
  readonly args: Args
  /** Other names of the tool that models use. */
  readonly names: readonly string[]
  /** Other forms of the arguments. */
  readonly forms: readonly Args[]
}

const shellNames = [
  'Bash',
  'bash',
  'shell',
  'Shell',
  'execute_bash',
  'run_command',
  'runCommand',
  'exec_command',
]
const intended: readonly Intended[] = [
  {
    family: 'editor',
    name: 'terminal',
    args: { command: 'ls -la' },
    names: [
      ...shellNames,
      'run_terminal_cmd',
      'functions.terminal',
      'Terminal',
      'TerminalTool',
      'local_shell',
    ],
    forms: [
      { cmd: 'ls -la' },
      { command: ['ls', '-la'] },
      { command: ['bash', '-lc', 'ls -la'] },
      { script: 'ls -la' },
      { arguments: { command: 'ls -la' } },
    ],
  },
  {
    family: 'editor',
    name: 'terminal',
    args: { command: 'echo \'it is\' "here"', timeout: 5 },
    names: shellNames,
    forms: [
      { cmd: 'echo \'it is\' "here"', timeout: '5' },
      { command: 'echo \'it is\' "here"', timeout: 5, is_input: null },
    ],
  },
  {
    family: 'editor',
    name: 'file_editor',
    args: { command: 'view', path: '/a.ts', view_range: [1, 20] },
    names: [
      'str_replace_editor',
      'str_replace_based_edit_tool',
      'FileEditor',
      'file-editor',
      'text_editor',
      'functions.file_editor',
      'fileEditor',
    ],
    forms: [
      { command: 'view', file_path: '/a.ts', view_range: [1, 20] },
      { command: 'View', path: '/a.ts', view_range: '[1, 20]' },
      { path: '/a.ts', viewRange: [1, 20] },
      { command: 'view', filePath: '/a.ts', range: [1, 20] },
      { command: 'view', path: '/a.ts', view_range: ['1', '20'] },
    ],
  },
  {
    family: 'editor',
    name: 'file_editor',
    args: { command: 'str_replace', path: '/a.ts', old_str: 'a\n  "b"', new_str: "it's" },
    names: [
      'str_replace',
      'str_replace_editor',
      'str_replace_based_edit_tool',
      'Edit',
      'edit_file',
      'replace_in_file',
    ],
    forms: [
      { command: 'str_replace', file_path: '/a.ts', old_string: 'a\n  "b"', new_string: "it's" },
      { path: '/a.ts', old_str: 'a\n  "b"', new_str: "it's" },
      { command: 'replace', path: '/a.ts', oldText: 'a\n  "b"', newText: "it's" },
      { command: 'strReplace', path: '/a.ts', old_str: 'a\n  "b"', new_str: "it's", view_range: null },
      { filename: '/a.ts', oldString: 'a\n  "b"', newString: "it's" },
    ],
  },
  {
    family: 'editor',
    name: 'file_editor',
    args: { command: 'create', path: '/a.py', file_text: 'if a:\n\tb("x")\n' },
    names: ['str_replace_editor', 'Write', 'write_file', 'create_file'],
    forms: [
      { command: 'create', path: '/a.py', content: 'if a:\n\tb("x")\n' },
      { path: '/a.py', file_text: 'if a:\n\tb("x")\n' },
      { command: 'create', file_path: '/a.py', contents: 'if a:\n\tb("x")\n' },
    ],
  },
  {
    family: 'editor',
    name: 'file_editor',
    args: { command: 'insert', path: '/a', insert_line: 3, new_str: 'x' },
    names: ['str_replace_editor', 'FileEditor'],
    forms: [
      { command: 'insert', path: '/a', insert_line: '3', new_str: 'x' },
      { command: 'insert', path: '/a', line: 3, new_str: 'x' },
      { path: '/a', insertLine: 3, newStr: 'x' },
    ],
  },
  {
    family: 'single',
    name: 'edit',
    args: { file_path: 'a.ts', old_string: 'a', new_string: 'b' },
    names: ['Edit', 'edit_file', 'EditTool', 'replace'],
    forms: [
      { path: 'a.ts', old_str: 'a', new_str: 'b' },
      { filePath: 'a.ts', oldString: 'a', newString: 'b' },
      { file: 'a.ts', search: 'a', replace: 'b' },
    ],
  },
  {
    family: 'single',
    name: 'write_file',
    args: { file_path: 'a.ts', content: 'x\n' },
    names: ['Write', 'WriteFile', 'write_to_file', 'writeFile', 'create_file'],
    forms: [
      { path: 'a.ts', contents: 'x\n' },
      { filename: 'a.ts', text: 'x\n' },
      { file: 'a.ts', file_text: 'x\n' },
    ],
  },
  {
    family: 'single',
    name: 'read_file',
    args: { file_path: 'a.ts' },
    names: ['ReadFile', 'readFile', 'view_file', 'open_file'],
    forms: [{ path: 'a.ts' }, { absolute_path: 'a.ts' }, { filePath: 'a.ts', offset: null }],
  },
  {
    family: 'single',
    name: 'list_directory',
    args: { dir_path: 'src' },
    names: ['LS', 'ls', 'list_dir', 'listDirectory', 'list_files'],
    forms: [{ path: 'src' }, { directory: 'src' }],
  },
  {
    family: 'single',
    name: 'glob',
    args: { pattern: '**/*.ts' },
    names: ['Glob', 'GlobTool', 'find_files', 'file_search'],
    forms: [{ query: '**/*.ts' }, { glob_pattern: '**/*.ts' }],
  },
  {
    family: 'single',
    name: 'grep',
    args: { pattern: 'a\\d+\\(', include: '*.ts' },
    names: ['Grep', 'grep_search', 'search_files', 'ripgrep'],
    forms: [
      { query: 'a\\d+\\(', file_pattern: '*.ts' },
      { regex: 'a\\d+\\(', glob: '*.ts' },
    ],
  },
  {
    family: 'single',
    name: 'task_tracker',
    args: {
      command: 'plan',
      task_list: [
        { title: 'one', notes: '', status: 'done' },
        { title: 'two', notes: '', status: 'in_progress' },
      ],
    },
    names: ['TodoWrite', 'TaskTracker', 'update_plan', 'todo_write'],
    forms: [
      {
        command: 'plan',
        todos: [
          { id: '1', content: 'one', status: 'completed' },
          { id: '2', content: 'two', status: 'in_progress', priority: 'high' },
        ],
      },
      {
        command: 'plan',
        plan: [
          { step: 'one', status: 'completed' },
          { step: 'two', status: 'in-progress' },
        ],
      },
      {
        command: 'plan',
        task_list: JSON.stringify([
          { title: 'one', status: 'Done' },
          { title: 'two', status: 'doing' },
        ]),
      },
    ],
  },
  {
    family: 'single',
    name: 'finish',
    args: { message: 'It is "done".\nAll of it.' },
    names: ['Finish', 'attempt_completion'],
    forms: [{ result: 'It is "done".\nAll of it.' }, { answer: 'It is "done".\nAll of it.' }],
  },
  {
    family: 'single',
    name: 'think',
    args: { thought: "it's" },
    names: ['Think', 'think_tool', 'functions.think'],
    forms: [{ thoughts: "it's" }, { reasoning: "it's" }],
  },
]

function pythonLiteral(value: unknown): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value === 'number') return String(value)
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(', ')}]`
  if (typeof value === 'object')
    return `{${Object.entries(value)
      .map(([name, one]) => `${pythonLiteral(name)}: ${pythonLiteral(one)}`)
      .join(', ')}}`
  const text = JSON.stringify(value).slice(1, -1).replaceAll('\\"', '"')
  return `'${text.replaceAll("'", "\\'")}'`
}

/** What models write instead of a JSON text. */
const jsonMutations: readonly ((args: Args) => string)[] = [
  pythonLiteral,
  (args) => JSON.stringify(args).replace(/\}$/, ',}'),
  (args) => `\`\`\`json\n${JSON.stringify(args, null, 2)}\n\`\`\``,
  (args) => JSON.stringify(JSON.stringify(args)),
  (args) => `[${JSON.stringify(args)}]`,
  (args) => JSON.stringify(args) + JSON.stringify(args),
  (args) => `{}${JSON.stringify(args)}`,
  (args) => JSON.stringify(args).replaceAll('\\n', '\n').replaceAll('\\t', '\t'),
  (args) => JSON.stringify(args).replaceAll('\\\\', '\\'),
  (args) => JSON.stringify(args).replace(/"(\w+)":/g, '$1:'),
  (args) => `{"arguments": ${JSON.stringify(args)}}`,
]

test('of three hundred malformed calls all are done, and none is misread', () => {
  const failures: string[] = []
  let total = 0
  for (const one of intended) {
    const right = parse(one.family, one.name, JSON.stringify(one.args))
    expect(right).toBeTypeOf('object')
    const calls = [
      ...one.names.map((name) => [name, JSON.stringify(one.args)] as const),
      ...one.forms.map((form) => [one.name, JSON.stringify(form)] as const),
      ...one.names
        .slice(0, 3)
        .flatMap((name) => one.forms.slice(0, 2).map((form) => [name, JSON.stringify(form)] as const)),
      ...jsonMutations.map((mutate) => [one.name, mutate(one.args)] as const),
    ]
    for (const [name, json] of calls) {
      total++
      const read = parse(one.family, name, json)
      if (typeof read === 'string') failures.push(`${name} ${json}: ${read}`)
      else expect(read, `${name} ${json}`).toEqual(right)
    }
  }
  expect(total).toBeGreaterThanOrEqual(300)
  expect(failures).toEqual([])
})

test.each([
  ['editor', 'terminal', '{"command": "ls'],
  ['editor', 'terminal', '{"command": "rm -rf build", "command": "ls"'],
  ['editor', 'terminal', "{'command': 'ls', 'command': 'rm x'}"],
  ['editor', 'terminal', '{"command": "ls"}{"command": "pwd"}'],
  ['editor', 'terminal', '[{"command": "ls"}, {"command": "pwd"}]'],
  ['editor', 'terminal', '{"cmd": "ls", "script": "pwd"}'],
  ['editor', 'terminal', '{"command": ["ls", 1]}'],
  ['editor', 'terminal', "{'command': 'echo it's'}"],
  ['editor', 'terminal', '{"command": "echo "a""}'],
  ['editor', 'terminal', '{"command": ls}'],
  ['editor', 'file_editor', '{"command": "write", "path": "/a", "file_text": "x"}'],
  ['editor', 'file_editor', '{"command": "create", "path": "/a", "content": "x", "text": "y"}'],
  [
    'editor',
    'file_editor',
    '{"command": "str_replace", "file": "/a", "filename": "/b", "old_str": "a", "new_str": "b"}',
  ],
  ['single', 'MultiEdit', '{"file_path": "/a", "edits": []}'],
  ['single', 'task_tracker', '{"command": "plan", "todos": [], "plan": []}'],
  ['single', 'task_tracker', '{"command": "plan", "task_list": [{"title": "a", "status": "cancelled"}]}'],
  ['single', 'delete_file', '{"path": "a"}'],
] as const)('what could mean two things is an error: %s %s %s', (family, name, json) => {
  expect(parse(family, name, json)).toBeTypeOf('string')
})

const view = (path: string, more: Args = {}) => ({ kind: 'FileEditorAction', command: 'view', path, ...more })
const run = (command: string, more: Args = {}) => ({ kind: 'TerminalAction', command, ...more })
const plan = {
  kind: 'TaskTrackerAction',
  command: 'plan',
  task_list: [{ title: 'one', status: 'in_progress' }],
}
const edit = { kind: 'FileEditorAction', command: 'str_replace', path: '/a', old_str: 'x', new_str: 'y' }
const create = { kind: 'FileEditorAction', command: 'create', path: '/a', file_text: 'x' }

/** As other agents have them: their names and members with our tools for files. */
test.each<[string, string, Args, Args]>([
  [
    'Claude Code',
    'Bash',
    { command: 'ls', description: 'List', timeout: 5, run_in_background: false },
    run('ls', { timeout: 5 }),
  ],
  ['Claude Code', 'Read', { file_path: '/a' }, view('/a')],
  ['Claude Code', 'Read', { file_path: '/a', offset: 10 }, view('/a', { view_range: [10, -1] })],
  ['Claude Code', 'Read', { file_path: '/a', offset: 10, limit: 5 }, view('/a', { view_range: [10, 14] })],
  ['Claude Code', 'Read', { file_path: '/a', limit: 5 }, view('/a', { view_range: [1, 5] })],
  ['Claude Code', 'Edit', { file_path: '/a', old_string: 'x', new_string: 'y' }, edit],
  ['Claude Code', 'Write', { file_path: '/a', content: 'x' }, create],
  ['Claude Code', 'LS', { path: '/a' }, view('/a')],
  [
    'Claude Code',
    'TodoWrite',
    { todos: [{ content: 'one', status: 'in_progress', activeForm: 'Doing one' }] },
    plan,
  ],
  ['Codex', 'shell', { command: ['bash', '-lc', 'ls'], workdir: '/a b' }, run("cd -- '/a b' && ls")],
  ['Codex', 'exec_command', { cmd: 'ls', workdir: '.' }, run('ls')],
  [
    'Codex',
    'shell_command',
    { command: 'a; b', workdir: '/w', justification: 'It is needed.' },
    run('cd -- /w && {\na; b\n}'),
  ],
  ['Codex', 'update_plan', { explanation: 'So.', plan: [{ step: 'one', status: 'in_progress' }] }, plan],
  ['Gemini CLI', 'run_shell_command', { command: 'ls', description: 'List' }, run('ls')],
  ['Gemini CLI', 'read_file', { absolute_path: '/a' }, view('/a')],
  ['Gemini CLI', 'write_file', { file_path: '/a', content: 'x' }, create],
  ['Gemini CLI', 'replace', { file_path: '/a', old_string: 'x', new_string: 'y' }, edit],
  ['Gemini CLI', 'list_directory', { path: '/a' }, view('/a')],
  ['opencode', 'bash', { command: 'ls', description: 'List files', timeout: null }, run('ls')],
  ['opencode', 'read', { filePath: '/a' }, view('/a')],
  ['opencode', 'edit', { filePath: '/a', oldString: 'x', newString: 'y' }, edit],
  ['opencode', 'write', { filePath: '/a', content: 'x' }, create],
  ['opencode', 'list', { path: '/a' }, view('/a')],
  [
    'opencode',
    'todowrite',
    { todos: [{ id: '1', content: 'one', status: 'in_progress', priority: 'high' }] },
    plan,
  ],
  ['Cline', 'execute_command', { command: 'ls', requires_approval: false }, run('ls')],
  ['Cline', 'read_file', { path: '/a' }, view('/a')],
  ['Cline', 'write_to_file', { path: '/a', content: 'x' }, create],
  ['Cline', 'list_files', { path: '/a' }, view('/a')],
  ['Cline', 'attempt_completion', { result: 'Done.' }, { kind: 'FinishAction', message: 'Done.' }],
])('a call of %s is done: %s %j', (_, name, args, action) => {
  expect(parse('editor', name, JSON.stringify(args))).toMatchObject(action)
})

test.each([
  ['a missing end', '{"command": "ls"', run('ls')],
  ['missing ends', '{"command": "plan", "task_list": [{"title": "one", "status": "in_progress"}', plan],
  ['an end too many', '{"command": "ls"}}', run('ls')],
  ['a list end too many', '{"command": "ls"}]}', run('ls')],
  ['seconds with their unit', '{"command": "ls", "timeout": "30s"}', run('ls', { timeout: 30 })],
  ['minutes', '{"command": "ls", "timeout": "2 minutes"}', run('ls', { timeout: 120 })],
  ['milliseconds', '{"command": "ls", "timeout": "500ms"}', run('ls', { timeout: 0.5 })],
])('%s: %s', (_, json, action) => {
  const name = action.kind === 'TaskTrackerAction' ? 'task_tracker' : 'terminal'
  expect(parse('editor', name, json)).toMatchObject(action)
})

test('a number that may be cut at the end is not taken for whole', () => {
  expect(parse('editor', 'terminal', '{"command": "ls", "timeout": 1')).toBeTypeOf('string')
})

test('a relative path is one of the workspace in the action that is asked about', () => {
  const path = join(fixtures.context.workspace.directory, 'src/a.ts')
  expect(parse('editor', 'file_editor', '{"command": "view", "path": "src/a.ts"}')).toMatchObject({ path })
  expect(parse('editor', 'read_file', '{"path": "./src/a.ts"}')).toMatchObject({ path })
})

test('what changes a call is not dropped', () => {
  for (const more of ['"run_in_background": true', '"workdir": 5', '"env": {"A": "b"}', '"user": "root"'])
    expect(parse('editor', 'terminal', `{"command": "ls", ${more}}`)).toBeTypeOf('string')
})

test('members of a tool that takes any are not renamed', () => {
  const tool: Tool = {
    ...(tools.single.get('think') as Tool),
    parameters: { type: 'object', properties: { path: { type: 'string' } } },
    parse: (args) => ({ action: { kind: 'MCPToolAction', data: args } as never }),
  }
  const call = { id: 'c', name: 'think', arguments: '{"file":"a"}', origin: 'completion' } as const
  expect(parseToolCall(call, new Map([['think', tool]]))).toMatchObject({ action: { data: { file: 'a' } } })
})
