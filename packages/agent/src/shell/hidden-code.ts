import { mayRunCode } from './hijack-variables.ts'
import { unknownText } from './words.ts'

/**
 * A subscript with a command, which bash executes wherever it evaluates the name of a variable or a number.
 */
const subscriptCode = /\[[^\]]*(?:\$\(|`)/

/** Builtins that take names of variables, or numbers, and evaluate subscripts in them. */
const evaluatingBuiltins =
  /^(?:test|\[|let|unset|read|declare|typeset|local|readonly|export|mapfile|readarray|getopts|printf|wait)$/
/** Their options whose value, the next argument, is no name. The others have none. */
const valueOptions: Readonly<Record<string, RegExp>> = {
  read: /^-[^dinNptu]*[dinNptu]$/,
  mapfile: /^-[^dnOsucC]*[dnOsucC]$/,
  readarray: /^-[^dnOsucC]*[dnOsucC]$/,
}
const namingBuiltins = /^(?:unset|read|declare|typeset|local|readonly|export|mapfile|readarray|getopts|let)$/

/** How certain it is that a text runs code that no call of it shows. */
export type HiddenCode = 'hidden' | 'possible' | undefined

/** Of the literal text of a word that bash evaluates as a name or a number. */
export function hiddenInName(text: string): HiddenCode {
  return subscriptCode.test(text) ? 'hidden' : undefined
}

/** Of a call of a builtin. */
export function hiddenInBuiltin(name: string, args: readonly string[]): HiddenCode {
  if (!evaluatingBuiltins.test(name)) return undefined
  const named = namesOf(name, args)
  if (named.some((arg) => subscriptCode.test(arg))) return 'hidden'
  const variable = (arg: string) => arg.replace(/[[=+].*$/s, '')
  const isUnknown = (arg: string) => variable(arg).includes(unknownText)
  const isReference = /^(?:declare|typeset|local)$/.test(name) && args.some((arg) => /^-\w*n/.test(arg))
  const isCallback = /^(?:mapfile|readarray)$/.test(name) && args.some((arg) => /^-[a-zA-Z]*C/.test(arg))
  if (isReference || isCallback) return 'possible'
  // Assignments of `export` and the like are rated by their values.
  const setsVariable = !/^(?:test|\[|unset|let|declare|typeset|local|readonly|export)$/.test(name)
  const isRisky = named.some((arg) => isUnknown(arg) || (setsVariable && mayRunCode(variable(arg))))
  return isRisky ? 'possible' : undefined
}

/** The arguments that a builtin evaluates. */
function namesOf(name: string, args: readonly string[]): readonly string[] {
  if (name === 'printf' || name === 'wait') {
    const option = name === 'printf' ? '-v' : '-p'
    return args.flatMap((arg, at) =>
      args[at - 1] === option
        ? [arg]
        : at === 0 && arg.startsWith(option) && arg.length > 2
          ? [arg.slice(2)]
          : [],
    )
  }
  if (name === 'test' || name === '[') {
    const isNumber = args.some((arg) => /^-(?:eq|ne|lt|le|gt|ge)$/.test(arg))
    const names = args.filter((_, at) => /^-[vR]$/.test(args[at - 1] ?? ''))
    // An unknown number is nearly always one.
    return isNumber ? [...names, ...args.filter((arg) => !arg.includes(unknownText))] : names
  }
  if (!namingBuiltins.test(name)) return []
  const option = Object.hasOwn(valueOptions, name) ? valueOptions[name] : undefined
  return args.filter((arg, at) => !arg.startsWith('-') && option?.test(args[at - 1] ?? '') !== true)
}
