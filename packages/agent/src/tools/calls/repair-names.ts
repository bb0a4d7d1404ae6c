type Args = Readonly<Record<string, unknown>>

interface NamedCall {
  readonly name: string
  readonly args: Args
}

/** Other names that models use for the terminal. */
const shellNames: ReadonlySet<string> = new Set(['bash', 'command', 'execute', 'execute_bash'])
/** Programs that models call like tools; the name is the first word of the command. */
const commandPrefixes: ReadonlySet<string> = new Set(['git', 'reset'])
const bareCommands: ReadonlySet<string> = new Set(['find', 'git', 'ls', 'pwd'])
const editorNames: ReadonlySet<string> = new Set(['str_replace', 'str_replace_editor'])
/** Parameters of the call, not of the tool. */
const commonParameters = ['security_risk', 'summary'] as const

/**
 * Repairs a call with an unknown name, or a call of an editor without a command. Undefined when there is
 * nothing to repair or no known tool matches.
 */
export function repairCall(name: string, args: Args, known: ReadonlySet<string>): NamedCall | undefined {
  if (known.has(name)) return addEditorCommand(name, args)
  // Markup of the model's own call format sometimes sticks to the name.
  const toolName = /^[A-Za-z_][\w-]*/.exec(name.trim())?.[0] ?? ''
  if (known.has(toolName)) return addEditorCommand(toolName, args) ?? { name: toolName, args }
  const call = toolName === '' ? undefined : guessCall(toolName, args)
  return call !== undefined && known.has(call.name) ? call : undefined
}

function guessCall(name: string, args: Args): NamedCall | undefined {
  if (editorNames.has(name)) return addEditorCommand('file_editor', args) ?? { name: 'file_editor', args }
  const shellCommand = [args.command, args.cmd].find((command) => typeof command === 'string')
  if (shellNames.has(name)) return terminalCall(args, shellCommand)
  if (bareCommands.has(name) && hasNoOwnArguments(args)) return terminalCall(args, name)
  if (name === 'reset' && hasNoOwnArguments(args))
    return { name: 'terminal', args: { ...args, command: '', reset: true } }
  if (commandPrefixes.has(name) && shellCommand !== undefined) {
    const isPrefixed = shellCommand.split(/\s/, 1)[0] === name
    return terminalCall(args, isPrefixed ? shellCommand : `${name} ${shellCommand}`)
  }
  if (name === 'grep' && typeof args.pattern === 'string') return grepCall(args, args.pattern)
  return undefined
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

function shellQuote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}

/** Adds the command that a call of an editor lacks, inferred from its members. */
function addEditorCommand(name: string, args: Args): NamedCall | undefined {
  const isEditor = name === 'file_editor' || name === 'planning_file_editor'
  if (!isEditor || args.command != null || typeof args.path !== 'string') return undefined
  const markers = { old_str: 'str_replace', insert_line: 'insert', file_text: 'create' }
  const [, command = 'view'] = Object.entries(markers).find(([member]) => args[member] != null) ?? []
  return { name, args: { ...args, command } }
}
