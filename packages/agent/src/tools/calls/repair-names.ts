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
  if (editorNames.has(name)) {
    const call = { name: 'file_editor', args }
    return addEditorCommand(call.name, args) ?? call
  }
  const shellCommand = getCommand(args)
  if (shellNames.has(name)) return terminalCall(args, shellCommand)
  if (bareCommands.has(name) && hasNoOwnArguments(args)) return terminalCall(args, name)
  if (name === 'reset' && hasNoOwnArguments(args))
    return { name: 'terminal', args: { ...args, command: '', reset: true } }
  if (commandPrefixes.has(name) && shellCommand !== undefined)
    return terminalCall(
      args,
      shellCommand.split(/\s/, 1)[0] === name ? shellCommand : `${name} ${shellCommand}`,
    )
  if (name === 'grep' && typeof args.pattern === 'string') return grepCall(args, args.pattern)
  return undefined
}

/** A call of the terminal, with the command under its correct name. */
function terminalCall(args: Args, command: string | undefined): NamedCall {
  if (command === undefined) return { name: 'terminal', args }
  const { command: _, cmd: __, ...others } = args
  return { name: 'terminal', args: { command, ...others } }
}

function getCommand({ command, cmd }: Args): string | undefined {
  if (typeof command === 'string') return command
  return typeof cmd === 'string' ? cmd : undefined
}

function hasNoOwnArguments(args: Args): boolean {
  return Object.keys(args).every((name) => commonParameters.some((other) => other === name))
}

function grepCall(args: Args, pattern: string): NamedCall {
  const include = typeof args.include === 'string' ? [`--include=${shellQuote(args.include)}`] : []
  const path = typeof args.path === 'string' && args.path !== '' ? args.path : '.'
  const command = ['grep -rnIE', ...include, '-e', shellQuote(pattern), '--', shellQuote(path)].join(' ')
  const commonArgs = Object.fromEntries(
    commonParameters.flatMap((name) => (name in args ? [[name, args[name]]] : [])),
  )
  return { name: 'terminal', args: { command, ...commonArgs } }
}

function shellQuote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}

/** Adds the command that a call of an editor lacks, inferred from its members. */
function addEditorCommand(name: string, args: Args): NamedCall | undefined {
  const isEditor = name === 'file_editor' || name === 'planning_file_editor'
  if (!isEditor || args.command != null || typeof args.path !== 'string') return undefined
  return { name, args: { ...args, command: inferEditorCommand(args) } }
}

function inferEditorCommand(args: Args): string {
  if (args.old_str != null) return 'str_replace'
  if (args.insert_line != null) return 'insert'
  return args.file_text != null ? 'create' : 'view'
}
