import { shellQuote } from '@slipway/shared/text'
import { plainKey } from './repair-arguments.ts'

type Args = Readonly<Record<string, unknown>>

interface NamedCall {
  readonly name: string
  readonly args: Args
}

/** Other names of tools, without case and separators. */
const otherNames: Readonly<Record<string, readonly string[]>> = {
  terminal: [
    ...['bash', 'shell', 'sh', 'command', 'execute', 'executebash', 'executecommand', 'exec', 'execcommand'],
    ...[
      'runcommand',
      'runbash',
      'runshell',
      'runshellcommand',
      'runterminalcmd',
      'runinterminal',
      'bashtool',
    ],
    ...['localshell', 'shellcommand', 'containerexec'],
  ],
  apply_patch: ['patch', 'patchfile'],
  file_editor: ['strreplace', 'strreplaceeditor', 'strreplacebasededittool', 'texteditor', 'editor'],
  edit: [
    'editfile',
    'edittool',
    'replace',
    'replaceinfile',
    'searchreplace',
    'strreplaceinfile',
    'applydiff',
  ],
  write_file: ['write', 'writetool', 'writetofile', 'createfile', 'newfile', 'savefile'],
  read_file: ['read', 'readtool', 'viewfile', 'openfile', 'view', 'cat'],
  list_directory: ['ls', 'list', 'listdir', 'listfiles'],
  grep: ['search', 'searchfiles', 'grepsearch', 'ripgrep', 'searchfilecontent'],
  glob: ['findfiles', 'filesearch', 'globsearch'],
  task_tracker: ['todowrite', 'updateplan', 'tasklist', 'todo'],
  finish: ['attemptcompletion', 'taskcomplete'],
}
/** What a tool of the other set is in the file editor. */
const editorCommands: Readonly<Record<string, string>> = {
  edit: 'str_replace',
  write_file: 'create',
  read_file: 'view',
  list_directory: 'view',
}
/** Programs that models call like tools; the name is the first word of the command. */
const commandPrefixes: ReadonlySet<string> = new Set(['git', 'reset'])
const bareCommands: ReadonlySet<string> = new Set(['find', 'git', 'ls', 'pwd'])
/** Parameters of the call, not of the tool. */
const commonParameters = ['security_risk', 'summary'] as const

/**
 * Repairs a call with an unknown name, or a call of an editor without a command. Undefined when there is
 * nothing to repair or no known tool matches.
 */
export function repairCall(name: string, args: Args, known: ReadonlySet<string>): NamedCall | undefined {
  if (known.has(name)) return addEditorCommand(name, args)
  // Markup of the model's own call format sometimes sticks to the name, and a name space may stand before it.
  const bareName = name.trim().replace(/^(?:functions?|tools?|default_api)[.:]/, '')
  const toolName = /^[A-Za-z_][\w-]*/.exec(bareName)?.[0] ?? ''
  if (known.has(toolName)) return addEditorCommand(toolName, args) ?? { name: toolName, args }
  if (toolName === '') return undefined
  const [same, ...more] = [...known].filter((one) => matchesName(one, toolName))
  if (same !== undefined && more.length === 0) return addEditorCommand(same, args) ?? { name: same, args }
  const isDotted = bareName.length > toolName.length && /^[\w.-]+$/.test(bareName)
  const call = (isDotted ? guessCall(bareName, args, known) : undefined) ?? guessCall(toolName, args, known)
  return call !== undefined && known.has(call.name) ? call : undefined
}

/** `FileEditor`, `file-editor` and `FileEditorTool` for `file_editor`. */
function matchesName(known: string, name: string): boolean {
  const key = plainKey(name)
  return key === plainKey(known) || key === `${plainKey(known)}tool`
}

function guessCall(name: string, args: Args, known: ReadonlySet<string>): NamedCall | undefined {
  const shellCommand = [args.command, args.cmd].find((command) => typeof command === 'string')
  if (bareCommands.has(name) && hasNoOwnArguments(args)) return terminalCall(args, name)
  if (name === 'reset' && hasNoOwnArguments(args))
    return { name: 'terminal', args: { ...args, command: '', reset: true } }
  if (commandPrefixes.has(name) && shellCommand !== undefined) {
    const isPrefixed = shellCommand.split(/\s/, 1)[0] === name
    return terminalCall(args, isPrefixed ? shellCommand : `${name} ${shellCommand}`)
  }
  if (name === 'grep' && typeof args.pattern === 'string') return grepCall(args, args.pattern)
  const key = plainKey(name)
  const [target] =
    Object.entries(otherNames).find(([own, names]) => plainKey(own) === key || names.includes(key)) ?? []
  if (target === 'terminal')
    return (known.has('apply_patch') ? patchCall(args) : undefined) ?? shellCall(key, args, shellCommand)
  if (target === 'file_editor') return addEditorCommand(target, args) ?? { name: target, args }
  // Of the two sets of tools for files a conversation mostly has one.
  const editorCommand = target === undefined || known.has(target) ? undefined : editorCommands[target]
  const isRange = key === 'read' && (args.offset != null || args.limit != null)
  if (editorCommand !== undefined) {
    // A view of a directory has two levels, as a recursive list of ours.
    const { recursive, ...others } = isRange ? lineRange(args) : args
    const isLevels = target === 'list_directory' && typeof recursive === 'boolean'
    const more = isLevels || recursive === undefined ? others : { ...others, recursive }
    return { name: 'file_editor', args: { command: editorCommand, ...more } }
  }
  // Ours counts lines from 0.
  if (target === 'read_file' && isRange && Number(args.offset) > 0)
    return { name: target, args: { ...args, offset: Number(args.offset) - 1 } }
  if (target === 'task_tracker') return { name: target, args: { command: 'plan', ...args } }
  return target === undefined ? undefined : { name: target, args }
}

/** `offset` and `limit` of Claude Code's `Read`: the first line, from 1, and how many. */
function lineRange({ offset, limit, ...others }: Args): Args {
  const [first, count] = [Number(offset ?? 1), limit == null ? undefined : Number(limit)]
  const isRange = [first, count ?? 1].every((number) => Number.isInteger(number) && number > 0)
  if (!isRange) return { ...others, offset, limit }
  return { ...others, view_range: [first, count === undefined ? -1 : first + count - 1] }
}

/** Codex starts its patch tool as a program of the shell. */
function patchCall(args: Args): NamedCall | undefined {
  const command: unknown = args.command ?? args.cmd
  const words: readonly unknown[] = Array.isArray(command) ? command : [command]
  const text = words.at(-1)
  const isProgram = words.length === 2 && words[0] === 'apply_patch'
  if (
    typeof text !== 'string' ||
    !(isProgram || /^\s*apply_patch\s+<<[\s\S]*\*\*\* End Patch\s+\w+\s*$/.test(text))
  )
    return undefined
  return { name: 'apply_patch', args: { patch: text.trim() } }
}

/** `Bash` of Claude Code and `bash` of opencode count milliseconds. */
function shellCall(key: string, args: Args, command: string | undefined): NamedCall {
  const { timeout } = args
  const isMilliseconds = key === 'bash' && typeof timeout === 'number' && timeout >= 1000
  return terminalCall(isMilliseconds ? { ...args, timeout: timeout / 1000 } : args, command)
}

/** A call of the terminal, with the command under its correct name. */
function terminalCall(args: Args, command: string | undefined): NamedCall {
  if (command === undefined) return { name: 'terminal', args }
  const { command: _, cmd: __, ...others } = args
  return { name: 'terminal', args: { command, ...others } }
}

function hasNoOwnArguments(args: Args): boolean {
  return Object.keys(args).every((name) => commonParameters.some((other) => other === name))
}

function grepCall(args: Args, pattern: string): NamedCall {
  const include = typeof args.include === 'string' ? [`--include=${shellQuote(args.include)}`] : []
  const path = typeof args.path === 'string' && args.path !== '' ? args.path : '.'
  const command = ['grep -rnIE', ...include, '-e', shellQuote(pattern), '--', shellQuote(path)].join(' ')
  const commonArgs = commonParameters.filter((name) => name in args).map((name) => [name, args[name]])
  return { name: 'terminal', args: { command, ...Object.fromEntries(commonArgs) } }
}

/** Adds the command that a call of an editor lacks, inferred from its members. */
export function addEditorCommand(name: string, args: Args): NamedCall | undefined {
  const isEditor = name === 'file_editor' || name === 'planning_file_editor'
  if (!isEditor || args.command != null || typeof args.path !== 'string') return undefined
  const markers = { old_str: 'str_replace', insert_line: 'insert', file_text: 'create' }
  const [, marked] = Object.entries(markers).find(([member]) => args[member] != null) ?? []
  const isView = Object.keys(args).every((member) => args[member] == null || viewMembers.has(member))
  const command = marked ?? (isView ? 'view' : undefined)
  return command === undefined ? undefined : { name, args: { ...args, command } }
}

/** With another member a call may mean another command. */
const viewMembers: ReadonlySet<string> = new Set(['path', 'view_range', ...commonParameters])
