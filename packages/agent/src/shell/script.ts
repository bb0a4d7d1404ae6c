import type { CommandExpansionPart, Redirection, SyntaxNode } from 'unbash'
import { fields, fieldText, type Scope, unknown } from './words.ts'
import { hasScript, remoteCommand, wrappedPrograms } from './wrappers.ts'

/** A program as a shell text would start it, with what surrounds it. */
export interface Call {
  /** The last part of the program's path; with `unknown` in it when it is worked out at run time. */
  readonly name: string
  readonly args: readonly string[]
  /** Variables set for this call alone. */
  readonly assigned: ReadonlyMap<string, string>
  /** Files that its output goes to, and those that its input comes from. */
  readonly writes: readonly string[]
  readonly reads: readonly string[]
  /** A here document or here string. */
  readonly input: string | undefined
  /** What is in front of it in its pipeline. */
  readonly upstream: readonly Call[]
  /** What its words are made from: `$(...)` and `<(...)`. */
  readonly inner: readonly Call[]
}

export interface Script {
  /** Everything that the text might run, in order, also inside of substitutions, functions, and texts for other shells. */
  readonly calls: readonly Call[]
  readonly hasErrors: boolean
  /** A function that starts itself twice over. */
  readonly isBomb: boolean
  /** There are more levels of shells, substitutions or wrappers than were looked into. */
  readonly isTooDeep: boolean
}

/** Shells in shells, and programs that run programs, deeper than this are not looked into. */
const maxDepth = 8
const maxWraps = 16
/** Calls made of one text in all. */
const maxCalls = 200_000
/** Values longer than this are not followed. */
const maxValue = 4096
const maxStages = 100
const shells = /^(?:ba|da|z|k|a|fi|c|tc|rba)?sh$/

/** Reads a shell text as the calls that it might make. */
export async function readScript(text: string): Promise<Script> {
  const { forEachChild, parse } = await import('unbash')
  const reader = new Reader(parse, forEachChild)
  return reader.read(text)
}

type Parse = typeof import('unbash')['parse']
type ForEachChild = typeof import('unbash')['forEachChild']
type Command = Extract<SyntaxNode, { type: 'Command' }>

class Reader {
  readonly #parse: Parse
  readonly #forEachChild: ForEachChild
  readonly #variables = new Map([
    ['HOME', '~'],
    ['PWD', '.'],
    ['TMPDIR', '/tmp'],
    ['IFS', ' '],
  ])
  readonly #scope: Scope
  /** What is in front of what is read now in its pipeline. */
  #upstream: readonly Call[] = []
  #depth = 0
  #hasErrors = false
  #isBomb = false
  #wraps = 0
  #count = 0
  #isTooDeep = false

  constructor(parse: Parse, forEachChild: ForEachChild) {
    this.#parse = parse
    this.#forEachChild = forEachChild
    this.#scope = { variables: this.#variables, output: (part) => this.#output(part) }
  }

  read(text: string): Script {
    const calls = this.#text(text)
    return { calls, hasErrors: this.#hasErrors, isBomb: this.#isBomb, isTooDeep: this.#isTooDeep }
  }

  #text(text: string): Call[] {
    if (this.#depth >= maxDepth) return this.#tooDeep()
    this.#depth++
    try {
      // What is not known takes part in the text as a variable of no value.
      const script = this.#parse(text.replaceAll(unknown, '$__unknown'))
      if (script.errors !== undefined) this.#hasErrors = true
      return script.commands.flatMap((statement) => this.#node(statement))
    } finally {
      this.#depth--
    }
  }

  #node(node: SyntaxNode): Call[] {
    if (node.type === 'Command') return this.#command(node)
    if (node.type === 'Pipeline') return this.#pipeline(node.commands)
    if (node.type === 'Function') return this.#function(node)
    if (node.type === 'Redirected') return this.#redirected(node)
    if (node.type === 'CommandExpansion' || node.type === 'ProcessSubstitution')
      return this.#substitution(node)
    return this.#children(node)
  }

  #substitution(node: Extract<SyntaxNode, { type: 'CommandExpansion' | 'ProcessSubstitution' }>): Call[] {
    if (this.#depth >= maxDepth || node.script === undefined) return this.#tooDeep()
    if (node.script.errors !== undefined) this.#hasErrors = true
    this.#depth++
    const calls = node.script.commands.flatMap((statement) => this.#node(statement))
    this.#depth--
    return calls
  }

  #children(node: SyntaxNode): Call[] {
    const found: Call[] = []
    this.#forEachChild(node, (child) => {
      append(found, this.#node(child))
    })
    return found
  }

  #pipeline(stages: readonly SyntaxNode[]): Call[] {
    const before = this.#upstream
    const found: Call[] = []
    for (const stage of stages) {
      // A pipeline that nobody writes by hand: all of it counts as in front of each part, which takes less memory.
      this.#upstream = stages.length > maxStages ? found : [...before, ...found]
      append(found, this.#node(stage))
    }
    this.#upstream = before
    return found
  }

  #function(node: Extract<SyntaxNode, { type: 'Function' }>): Call[] {
    const calls = this.#node(node.body)
    const own = calls.filter(({ name }) => name === node.name.value)
    if (own.length > 1 || own.some(({ upstream }) => upstream.length > 0)) this.#isBomb = true
    return calls
  }

  /** A compound statement with redirections of its own: they hold for all of its calls. */
  #redirected(node: Extract<SyntaxNode, { type: 'Redirected' }>): Call[] {
    const files = this.#files(node.redirects)
    const inner = node.redirects.flatMap((redirect) => this.#children(redirect))
    const body = this.#node(node.command).map((one) => ({ ...one, writes: [...one.writes, ...files.writes] }))
    return [...inner, ...body, ...(files.writes.length > 0 ? [call({ name: ':', ...files })] : [])]
  }

  #command(node: Command): Call[] {
    const inner = this.#children(node)
    const assigned = new Map<string, string>()
    for (const part of [...node.prefix, ...node.suffix]) {
      if (part.type !== 'Assignment') continue
      assigned.set(part.name, part.value.type === 'Word' ? fieldText(part.value, this.#scope) : unknown)
    }
    const words = [...(node.name === undefined ? [] : [node.name]), ...node.args].flatMap((word) =>
      word.type === 'Word' ? fields(word, this.#scope) : [`${word.name}=${assigned.get(word.name)}`],
    )
    const files = this.#files(node.redirects)
    // Without a program, the assignments stay; `export` and its like keep them too.
    if (words.length === 0 || /^(?:export|declare|typeset|local|readonly)$/.test(words[0] ?? ''))
      for (const [name, value] of assigned)
        this.#variables.set(name, value.length > maxValue ? unknown : value)
    const [program = ':', ...args] = words
    const own = call({ name: baseName(program), args, assigned, ...files, inner, upstream: this.#upstream })
    return [...inner, own, ...this.#unwrapped(own)]
  }

  #files(redirects: readonly Redirection[]): Pick<Call, 'writes' | 'reads' | 'input'> {
    const writes: string[] = []
    const reads: string[] = []
    let input: string | undefined
    for (const redirect of redirects) {
      if (redirect.type === 'HereString')
        input = redirect.target === undefined ? unknown : fieldText(redirect.target, this.#scope)
      else if (redirect.type === 'HereDoc') input = redirect.body.text
      else if (redirect.target !== undefined) {
        const target = fieldText(redirect.target, this.#scope)
        if (redirect.operator === '<' || redirect.operator === '<&') reads.push(target)
        else writes.push(target)
      }
    }
    return { writes, reads, input }
  }

  /** What `echo` and its like write is known; of other programs it is not. */
  #output(part: CommandExpansionPart): string {
    const calls = this.#substitution(part)
    return calls.length === 1 && calls[0] !== undefined ? printed(calls[0]) : unknown
  }

  /** The calls that a call makes in its turn because its arguments say so. */
  #unwrapped(outer: Call): Call[] {
    this.#count++
    if (this.#wraps >= maxWraps || this.#count > maxCalls) return this.#tooDeep()
    this.#wraps++
    const found = this.#made(outer)
    this.#wraps--
    return found
  }

  #tooDeep(): Call[] {
    this.#isTooDeep = true
    return []
  }

  #made(outer: Call): Call[] {
    const around = { upstream: outer.upstream, inner: outer.inner }
    const found: Call[] = this.#texts(outer).flatMap((text) =>
      this.#text(text).map((one) => ({ ...one, upstream: [...around.upstream, ...one.upstream] })),
    )
    const piped: Call | undefined = outer.upstream.at(-1)
    const input = outer.name !== 'xargs' ? [] : piped === undefined ? [unknown] : printed(piped).split(/\s+/)
    for (const [program, ...args] of wrappedPrograms(outer.name, outer.args)) {
      const one = call({ ...around, name: baseName(program ?? unknown), args: [...args, ...input] })
      found.push(one)
      append(found, this.#unwrapped(one))
    }
    return found
  }

  /** Shell texts that a call runs. */
  #texts(outer: Call): string[] {
    const { name, args, input } = outer
    if (name === 'eval') return [args.join(' ')]
    if (name === 'alias') return args.map((arg) => arg.replace(/^[^=]*=?/, '')).filter((text) => text !== '')
    if (name === 'trap') return args.slice(0, 1)
    if (name === 'ssh') return remoteCommand(args)
    if (name === 'watch' || name === 'parallel') return [args.filter((arg) => !arg.startsWith('-')).join(' ')]
    if (name === 'su' || name === 'script' || name === 'flock' || shells.test(name)) {
      const at = args.findIndex((arg) => /^-[a-z]*c$/.test(arg) || arg === '--command')
      const text = args[at + 1]
      if (at !== -1) return text === undefined ? [] : [text]
    }
    if (!shells.test(name) || hasScript(args)) return []
    const piped = outer.upstream.at(-1)
    return input !== undefined
      ? [input]
      : piped === undefined
        ? []
        : [printed(piped)].filter((text) => text !== unknown)
  }
}

/** Without spreading: a call takes no argument list of that length. */
function append<T>(list: T[], more: readonly T[]): void {
  for (const one of more) list.push(one)
}

function call(members: Partial<Call>): Call {
  const none: Call = {
    name: ':',
    args: [],
    assigned: new Map(),
    writes: [],
    reads: [],
    input: undefined,
    upstream: [],
    inner: [],
  }
  return { ...none, ...members }
}

function baseName(program: string): string {
  const name = program.slice(program.lastIndexOf('/') + 1)
  return name === '' ? program : name
}

/** What a call of echo or printf writes; `unknown` for others. */
function printed({ name, args }: Call): string {
  if (name === 'echo') return args.filter((arg, at) => at > 0 || !/^-[neE]+$/.test(arg)).join(' ')
  const [format, ...values] = args
  if (name !== 'printf' || format === undefined) return unknown
  const rest = [...values]
  return format
    .replace(/%[sb]/g, () => rest.shift() ?? '')
    .replace(/\\x([0-9a-fA-F]{1,2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/\\0?([0-7]{1,3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)))
    .replaceAll('\\n', '\n')
}
