type Args = Readonly<Record<string, unknown>>

interface Call {
  readonly name: string
  readonly args: Args
}

/** Other names under which models know the shell. */
const shells: ReadonlySet<string> = new Set(['bash', 'command', 'execute', 'execute_bash'])
/** Programs that are called as if they were tools; the name begins the command. */
const prefixes: ReadonlySet<string> = new Set(['git', 'reset'])
const bare: ReadonlySet<string> = new Set(['find', 'git', 'ls', 'pwd'])
const editors: ReadonlySet<string> = new Set(['str_replace', 'str_replace_editor'])
/** What is told about a call and not to the tool. */
const common = ['security_risk', 'summary'] as const

/**
 * The call that is meant by one with a name that is not known, or by a call of an editor without a command. Undefined when
 * nothing is to be repaired, or nothing known is meant.
 */
export function repairCall(name: string, args: Args, known: ReadonlySet<string>): Call | undefined {
  if (known.has(name)) return withCommand(name, args)
  // Markup of the model's own call format sometimes sticks to the name.
  const head = /^[A-Za-z_][\w-]*/.exec(name.trim())?.[0] ?? ''
  if (known.has(head)) return withCommand(head, args) ?? { name: head, args }
  const call = head === '' ? undefined : meant(head, args)
  return call !== undefined && known.has(call.name) ? call : undefined
}

function meant(name: string, args: Args): Call | undefined {
  if (editors.has(name)) {
    const call = { name: 'file_editor', args }
    return withCommand(call.name, args) ?? call
  }
  const command = commandOf(args)
  if (shells.has(name)) return shell(args, command)
  if (bare.has(name) && isBare(args)) return shell(args, name)
  if (name === 'reset' && isBare(args))
    return { name: 'terminal', args: { ...args, command: '', reset: true } }
  if (prefixes.has(name) && command !== undefined)
    return shell(args, command.split(/\s/, 1)[0] === name ? command : `${name} ${command}`)
  if (name === 'grep' && typeof args.pattern === 'string') return grep(args, args.pattern)
  return undefined
}

/** The arguments for the terminal: the command in its place, whatever it was called. */
function shell(args: Args, command: string | undefined): Call {
  if (command === undefined) return { name: 'terminal', args }
  const { command: _, cmd: __, ...others } = args
  return { name: 'terminal', args: { command, ...others } }
}

function commandOf({ command, cmd }: Args): string | undefined {
  if (typeof command === 'string') return command
  return typeof cmd === 'string' ? cmd : undefined
}

function isBare(args: Args): boolean {
  return Object.keys(args).every((name) => common.some((other) => other === name))
}

function grep(args: Args, pattern: string): Call {
  const include = typeof args.include === 'string' ? [`--include=${quoted(args.include)}`] : []
  const path = typeof args.path === 'string' && args.path !== '' ? args.path : '.'
  const command = ['grep -rnIE', ...include, '-e', quoted(pattern), '--', quoted(path)].join(' ')
  const told = Object.fromEntries(common.flatMap((name) => (name in args ? [[name, args[name]]] : [])))
  return { name: 'terminal', args: { command, ...told } }
}

/** A word for the shell. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}

/** A call of an editor that lacks its command, with the one that its members tell. */
function withCommand(name: string, args: Args): Call | undefined {
  const isEditor = name === 'file_editor' || name === 'planning_file_editor'
  if (!isEditor || args.command != null || typeof args.path !== 'string') return undefined
  return { name, args: { ...args, command: editorCommand(args) } }
}

function editorCommand(args: Args): string {
  if (args.old_str != null) return 'str_replace'
  if (args.insert_line != null) return 'insert'
  return args.file_text != null ? 'create' : 'view'
}
