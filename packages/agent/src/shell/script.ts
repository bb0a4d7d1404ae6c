import type { CommandExpansionPart, Redirection, SyntaxNode, WordPart } from 'unbash'
import { type HiddenCode, hiddenInBuiltin, hiddenInName } from './hidden-code.ts'
import { mayRunCode } from './hijack-variables.ts'
import { expandToText, expandWord, unknownText, type VariableScope } from './words.ts'
import { gitCommandTexts, hasScriptFile, remoteCommand, wrappedPrograms } from './wrappers.ts'

/** A shell process of a text: what a call in it enters (`cd`) does not move calls outside of it. */
export interface ShellProcess {
  /** It starts in the directory of this one. */
  readonly outer: ShellProcess | undefined
  /** The call that starts it, with its own options for the directory. */
  readonly starter?: ShellCall | undefined
}

/** A program call of a shell text, with its context. */
export interface ShellCall {
  /** The last part of the program's path; contains `unknownText` when it is computed at run time. */
  readonly name: string
  /** The directory part of the program's path as written; empty for a program of the PATH. */
  readonly folder: string
  readonly args: readonly string[]
  /** A word begins with a glob: the name of any file may be an option. */
  readonly hasOpenGlob: boolean
  /** Variables set for this call only. */
  readonly assignments: ReadonlyMap<string, string>
  /** Files of its redirections. */
  readonly writes: readonly string[]
  readonly reads: readonly string[]
  /** A here document or here string. */
  readonly input: string | undefined
  /** The calls before it in its pipeline. */
  readonly upstream: readonly ShellCall[]
  /** The calls in its words: `$(...)` and `<(...)`. */
  readonly substitutions: readonly ShellCall[]
  readonly shell: ShellProcess
}

export interface ShellScript {
  /**
   * All calls that the text may make, in order, including those in substitutions, functions and nested shell
   * texts.
   */
  readonly calls: readonly ShellCall[]
  /** Names of the functions that the text defines. */
  readonly functions: ReadonlySet<string>
  readonly hasErrors: boolean
  /** A function calls itself more than once, or in a pipeline. */
  readonly isForkBomb: boolean
  /** Shells, substitutions or wrappers nest deeper than the limit. */
  readonly isTooDeep: boolean
  /** It has more calls, substitutions or words of a call than the limit; `calls` has the first ones. */
  readonly isTooLong: boolean
}

/** Maximum nesting of shells, and of programs that run programs. */
const maxDepth = 8
const maxWrapDepth = 16
/** Maximum number of calls of one text; more make the text too long. */
const maxCalls = 1_000
/** Maximum number of words of one call. */
const maxWords = 2_000
/**
 * Maximum characters that are parsed, those of nested texts included: a text may be an argument of itself.
 */
const maxParsedChars = 64 * 1024
/** Longer values of variables count as unknown. */
const maxValue = 4096
const maxStages = 100
/** Programs of the shell itself that run others in its own process. */
const sameShell = /^(?:command|builtin|time|exec|eval|alias|trap|mapfile|readarray)$/
const shellNames = /^(?:ba|da|z|k|a|fi|c|tc|rba)?sh$/

/** Parses a shell text into the calls that it may make. */
export async function parseScript(text: string): Promise<ShellScript> {
  const { forEachChild, parse } = await import('unbash')
  const reader = new ScriptReader(parse, forEachChild)
  return reader.read(text)
}

const topShell: ShellProcess = { outer: undefined }

type Parse = typeof import('unbash')['parse']
type ForEachChild = typeof import('unbash')['forEachChild']
type Command = Extract<SyntaxNode, { type: 'Command' }>

class ScriptReader {
  readonly #parse: Parse
  readonly #forEachChild: ForEachChild
  readonly #variables = new Map([
    ['HOME', '~'],
    ['PWD', '.'],
    ['TMPDIR', '/tmp'],
    ['IFS', ' '],
  ])
  readonly #scope: VariableScope
  readonly #functions = new Set<string>()
  /** The calls before the current node in its pipeline. */
  #upstream: readonly ShellCall[] = []
  /** The one of the current node. */
  #shell: ShellProcess = topShell
  #depth = 0
  #hasErrors = false
  #isForkBomb = false
  #wrapDepth = 0
  #callCount = 0
  #parsedChars = 0
  #isTooDeep = false

  constructor(parse: Parse, forEachChild: ForEachChild) {
    this.#parse = parse
    this.#forEachChild = forEachChild
    this.#scope = { variables: this.#variables, output: (part) => this.#knownOutput(part) }
  }

  read(text: string): ShellScript {
    const calls = this.#parseText(text)
    return {
      calls,
      functions: this.#functions,
      hasErrors: this.#hasErrors,
      isForkBomb: this.#isForkBomb,
      isTooDeep: this.#isTooDeep,
      isTooLong: this.#callCount > maxCalls,
    }
  }

  #parseText(text: string): ShellCall[] {
    this.#parsedChars += text.length
    if (this.#depth >= maxDepth || this.#parsedChars > maxParsedChars) return this.#markTooDeep()
    if (text.split('$(', maxCalls + 2).length > maxCalls + 1) return this.#markTooLong()
    this.#depth++
    try {
      // Unknown text is parsed as a variable without a value.
      const script = this.#parse(text.replaceAll(unknownText, '$__unknown'))
      if (script.errors !== undefined) this.#hasErrors = true
      return script.commands.flatMap((statement) => this.#readNode(statement))
    } finally {
      this.#depth--
    }
  }

  #readNode(node: SyntaxNode): ShellCall[] {
    // The rest of a text that is too long changes nothing.
    if (this.#callCount > maxCalls) return []
    if (node.type === 'Command') return this.#readCommand(node)
    if (node.type === 'Pipeline') return this.#readPipeline(node.commands)
    if (node.type === 'Function') return this.#readFunction(node)
    if (node.type === 'Redirected') return this.#readRedirected(node)
    if ((node.type === 'For' || node.type === 'Select') && mayRunCode(node.name.value))
      return [...this.#readAssignment(node.name.value), ...this.#readChildren(node)]
    if (node.type === 'Subshell' || node.type === 'Coproc' || (node.type === 'Statement' && node.background))
      return this.#inNewShell(() => this.#readChildren(node))
    if (node.type === 'CommandExpansion' || node.type === 'ProcessSubstitution')
      return this.#readSubstitution(node)
    return [...hiddenCalls(this.#hiddenCode(node)), ...this.#readChildren(node)]
  }

  /** Code in a text that bash evaluates where no call shows it. */
  #hiddenCode(node: SyntaxNode): HiddenCode {
    switch (node.type) {
      case 'TestUnary': {
        if (!/^-[vR]$/.test(node.operator)) return undefined
        const text = expandToText(node.operand, this.#scope)
        return hiddenInName(text) ?? (/^[^[]*\0/.test(text) ? 'possible' : undefined)
      }
      case 'TestBinary':
        if (!/^-(?:eq|ne|lt|le|gt|ge)$/.test(node.operator)) return undefined
        return hiddenInName([node.left, node.right].map((word) => expandToText(word, this.#scope)).join(' '))
      case 'ArithmeticWord':
        return hiddenInName(
          node.parts === undefined
            ? node.value
            : node.parts.map((part) => (part.type === 'CommandExpansion' ? '' : literalText(part))).join(''),
        )
      case 'Assignment':
        return hiddenInName(
          node.value.type === 'Word'
            ? expandToText(node.value, this.#scope)
            : node.value.elements.map((word) => expandToText(word, this.#scope)).join(' '),
        )
      case 'ParameterExpansion':
        return node.operation?.type === 'Transform' && /^P/.test(node.operation.operand.value)
          ? 'hidden'
          : undefined
      default:
        return undefined
    }
  }

  /** A loop over values of a variable sets it as an assignment does. */
  #readAssignment(name: string): ShellCall[] {
    return [createCall({ assignments: new Map([[name, unknownText]]), shell: this.#shell })]
  }

  #readSubstitution(
    node: Extract<SyntaxNode, { type: 'CommandExpansion' | 'ProcessSubstitution' }>,
  ): ShellCall[] {
    if (this.#callCount > maxCalls) return []
    if (this.#depth >= maxDepth || node.script === undefined) return this.#markTooDeep()
    if (node.script.errors !== undefined) this.#hasErrors = true
    this.#depth++
    const { commands } = node.script
    const calls = this.#inNewShell(() => commands.flatMap((statement) => this.#readNode(statement)))
    this.#depth--
    return calls
  }

  #inNewShell(read: () => ShellCall[], starter?: ShellCall): ShellCall[] {
    const outer = this.#shell
    this.#shell = { outer, starter }
    const calls = read()
    this.#shell = outer
    return calls
  }

  #readChildren(node: SyntaxNode): ShellCall[] {
    const found: ShellCall[] = []
    this.#forEachChild(node, (child) => pushAll(found, this.#readNode(child)))
    return found
  }

  #readPipeline(stages: readonly SyntaxNode[]): ShellCall[] {
    const outerUpstream = this.#upstream
    const found: ShellCall[] = []
    for (const stage of stages) {
      // In very long pipelines all stages share one list of upstream calls, to save memory.
      this.#upstream = stages.length > maxStages ? found : [...outerUpstream, ...found]
      const read = () => this.#readNode(stage)
      pushAll(found, stages.length > 1 ? this.#inNewShell(read) : read())
    }
    this.#upstream = outerUpstream
    return found
  }

  #readFunction(node: Extract<SyntaxNode, { type: 'Function' }>): ShellCall[] {
    this.#functions.add(node.name.value)
    const calls = this.#readNode(node.body)
    const own = calls.filter(({ name }) => name === node.name.value)
    if (own.length > 1 || own.some(({ upstream }) => upstream.length > 0)) this.#isForkBomb = true
    return calls
  }

  /** A compound statement with redirections, which apply to all of its calls. */
  #readRedirected(node: Extract<SyntaxNode, { type: 'Redirected' }>): ShellCall[] {
    const files = this.#redirectedFiles(node.redirects)
    const inner = node.redirects.flatMap((redirect) => this.#readChildren(redirect))
    const body = this.#readNode(node.command).map((inner) => ({
      ...inner,
      writes: [...inner.writes, ...files.writes],
    }))
    return [
      ...inner,
      ...body,
      ...(files.writes.length > 0 ? [createCall({ name: ':', ...files, shell: this.#shell })] : []),
    ]
  }

  #readCommand(node: Command): ShellCall[] {
    if (node.args.length > maxWords) return this.#markTooLong()
    const substitutions = this.#readChildren(node)
    const assigned = new Map<string, string>()
    for (const part of [...node.prefix, ...node.suffix]) {
      if (part.type !== 'Assignment') continue
      assigned.set(
        part.name,
        part.value.type === 'Word' ? expandToText(part.value, this.#scope) : unknownText,
      )
    }
    const words = [...(node.name === undefined ? [] : [node.name]), ...node.args].flatMap((word) =>
      word.type === 'Word' ? expandWord(word, this.#scope) : [`${word.name}=${assigned.get(word.name)}`],
    )
    const files = this.#redirectedFiles(node.redirects)
    // Assignments persist without a program and with `export` and similar builtins.
    if (words.length === 0 || /^(?:export|declare|typeset|local|readonly)$/.test(words[0] ?? ''))
      for (const [name, value] of assigned)
        this.#variables.set(name, value.length > maxValue ? unknownText : value)
    const hasOpenGlob = node.args.some((word) => /^(?:[*?[]|[@!+]\()/.test(word.text))
    const [program = ':', ...args] = words
    const programCall = createCall({
      ...programPath(program),
      args,
      hasOpenGlob,
      assignments: assigned,
      ...files,
      substitutions,
      upstream: this.#upstream,
      shell: this.#shell,
    })
    const hidden = hiddenCalls(hiddenInBuiltin(programCall.name, args))
    return [...substitutions, programCall, ...hidden, ...this.#unwrap(programCall)]
  }

  #redirectedFiles(redirects: readonly Redirection[]): Pick<ShellCall, 'writes' | 'reads' | 'input'> {
    const writes: string[] = []
    const reads: string[] = []
    let input: string | undefined
    for (const redirect of redirects) {
      if (redirect.type === 'HereString')
        input = redirect.target === undefined ? unknownText : expandToText(redirect.target, this.#scope)
      else if (redirect.type === 'HereDoc') input = redirect.body.text
      else if (redirect.target !== undefined) {
        const target = expandToText(redirect.target, this.#scope)
        // `2>&1` and `2>&-`: no file, unlike `2>1`.
        if (redirect.operator === '>&' && /^(?:\d+-?|-)$/.test(target)) continue
        if (redirect.operator === '<' || redirect.operator === '<&') reads.push(target)
        else writes.push(target)
      }
    }
    return { writes, reads, input }
  }

  /** The output of `echo` and `printf`; unknown for other programs. */
  #knownOutput(part: CommandExpansionPart): string {
    const [call, ...others] = this.#readSubstitution(part)
    return others.length === 0 ? echoOutput(call) : unknownText
  }

  /** The calls that a call makes because of its arguments. */
  #unwrap(outer: ShellCall): ShellCall[] {
    this.#callCount++
    if (this.#wrapDepth >= maxWrapDepth || this.#callCount > maxCalls) return this.#markTooDeep()
    this.#wrapDepth++
    const read = () => this.#nestedCalls(outer)
    const found = sameShell.test(outer.name) ? read() : this.#inNewShell(read, outer)
    this.#wrapDepth--
    return found
  }

  #markTooDeep(): ShellCall[] {
    this.#isTooDeep = true
    return []
  }

  #markTooLong(): ShellCall[] {
    this.#callCount = maxCalls + 1
    return []
  }

  #nestedCalls(outer: ShellCall): ShellCall[] {
    const { upstream, substitutions, hasOpenGlob } = outer
    const found: ShellCall[] = this.#nestedTexts(outer)
      .flatMap((text) => this.#parseText(text))
      .map((nested) => ({ ...nested, upstream: [...upstream, ...nested.upstream] }))
    const input = outer.name === 'xargs' ? echoOutput(upstream.at(-1)).split(/\s+/) : []
    for (const [program = unknownText, ...args] of wrappedPrograms(outer.name, outer.args)) {
      const nested = createCall({
        ...{ upstream, substitutions, hasOpenGlob, ...programPath(program), args: [...args, ...input] },
        shell: this.#shell,
      })
      found.push(nested)
      if (sameShell.test(outer.name)) pushAll(found, hiddenCalls(hiddenInBuiltin(nested.name, nested.args)))
      pushAll(found, this.#unwrap(nested))
    }
    return found
  }

  /** The shell texts that a call runs. */
  #nestedTexts(outer: ShellCall): string[] {
    const { name, args, input } = outer
    if (name === 'eval') return [args.join(' ')]
    if (name === 'alias') return args.map((arg) => arg.replace(/^[^=]*=?/, '')).filter((text) => text !== '')
    if (name === 'trap') return args.slice(0, 1)
    if (name === 'mapfile' || name === 'readarray') return args.filter((_, at) => args[at - 1] === '-C')
    if (name === 'ssh') return remoteCommand(args)
    if (name === 'watch' || name === 'parallel') return [args.filter((arg) => !arg.startsWith('-')).join(' ')]
    if (name === 'git') return gitCommandTexts(args)
    if (name === 'tmux' || name === 'screen') return args.filter((arg) => /\s/.test(arg))
    if (name === 'su' || name === 'script' || name === 'flock' || shellNames.test(name)) {
      const index = args.findIndex((arg) => /^-[a-z]*c$/.test(arg) || arg === '--command')
      const text = args[index + 1]
      if (index !== -1) return text === undefined ? [] : [text]
    }
    if (!shellNames.test(name) || hasScriptFile(args)) return []
    if (input !== undefined) return [input]
    return [echoOutput(outer.upstream.at(-1))].filter((text) => text !== unknownText)
  }
}

/** Stands for code that is evaluated but not visible as a call. */
function hiddenCalls(code: HiddenCode): ShellCall[] {
  if (code === undefined) return []
  return [createCall({ name: unknownText, substitutions: code === 'hidden' ? [createCall({})] : [] })]
}

/** The text of a part without substitutions, quotes removed. */
function literalText(part: WordPart): string {
  if (part.type === 'DoubleQuoted' || part.type === 'LocaleString')
    return part.parts.map(literalText).join('')
  return 'value' in part ? part.value : ''
}

/** Without spreading, which fails for very long lists. */
function pushAll<T>(list: T[], more: readonly T[]): void {
  for (const one of more) list.push(one)
}

function createCall(members: Partial<ShellCall>): ShellCall {
  const files = { writes: [], reads: [], input: undefined }
  const context = { assignments: new Map<string, string>(), upstream: [], substitutions: [], shell: topShell }
  return { name: ':', folder: '', args: [], hasOpenGlob: false, ...files, ...context, ...members }
}

function programPath(program: string): { readonly name: string; readonly folder: string } {
  const at = program.lastIndexOf('/') + 1
  const name = program.slice(at)
  return { name: name === '' ? program : name, folder: program.slice(0, at) }
}

/** The output of echo or printf; `unknownText` for other programs and without a call. */
function echoOutput(call: ShellCall | undefined): string {
  const { name, args } = call ?? createCall({})
  if (name === 'echo') return args.filter((arg, at) => at > 0 || !/^-[neE]+$/.test(arg)).join(' ')
  const [format, ...values] = args
  if (name !== 'printf' || format === undefined) return unknownText
  const rest = [...values]
  return format
    .replace(/%[sb]/g, () => rest.shift() ?? '')
    .replace(/\\x([0-9a-fA-F]{1,2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/\\0?([0-7]{1,3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)))
    .replaceAll('\\n', '\n')
}
