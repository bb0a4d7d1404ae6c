import type { ShellCall } from './script.ts'
import { findPaths } from './wrappers.ts'

/** The folders whose files a call reads all, whatever their names. */
export function searchedPaths({ name, args }: ShellCall): readonly string[] {
  const paths = args.filter((arg) => !arg.startsWith('-'))
  const isRecursive = args.some((arg) => /^-[a-zA-Z]*[rRa]/.test(arg) || /^--(?:rec|deref|archive)/.test(arg))
  const orHere = (found: readonly string[]) => (found.length === 0 ? ['.'] : found)
  switch (name) {
    case 'grep':
    case 'egrep':
    case 'fgrep':
      // Without `-e`, the first is the pattern.
      return args.some((arg) => /^-[a-zA-Z]*[rR]|^--(?:rec|deref)/.test(arg))
        ? orHere(args.some((arg) => /^-[a-zA-Z]*[ef]$|^--(?:reg|file)/.test(arg)) ? paths : paths.slice(1))
        : []
    case 'rg':
    case 'ag':
      // They skip hidden files otherwise.
      return args.some((arg) => /^-[a-z]*u|^--(?:hidden|unrestricted)|^-\./.test(arg))
        ? orHere(paths.slice(1))
        : []
    case 'find':
    case 'fd': {
      const program = args.findIndex((arg) => /^-(?:exec|execdir|ok|okdir|x|X)$/.test(arg))
      if (program === -1) return []
      const before = args.slice(0, program)
      return orHere(name === 'find' ? findPaths(before) : before.filter((arg) => !arg.startsWith('-')))
    }
    case 'tar':
    case 'bsdtar':
      return args.some(
        (arg, at) =>
          /^(?:-[a-zA-Z]*[cru]|--(?:create|append|update))/.test(arg) || (at === 0 && /^[cru]/.test(arg)),
      )
        ? paths
        : []
    case 'cp': {
      if (!isRecursive) return []
      const target = args.findIndex((arg) => /^-[a-zA-Z]*t|^--t/.test(arg))
      if (target === -1) return paths.slice(0, -1)
      const value = /^-[a-zA-Z]*t$|^--[^=]*$/.test(args[target] ?? '') ? target + 1 : -1
      return args.filter((arg, at) => !arg.startsWith('-') && at !== value)
    }
    case 'rsync':
    case 'diff':
      return isRecursive ? (name === 'diff' ? paths : paths.slice(0, -1)) : []
    case 'zip':
      return isRecursive ? paths.slice(1) : []
    default:
      return []
  }
}
