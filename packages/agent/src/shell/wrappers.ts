/** Whether shell arguments name a script file; the shell then does not read its standard input. */
export function hasScriptFile(args: readonly string[]): boolean {
  const isValue = (at: number) => /^(?:[-+][oO]|--rcfile|--init-file)$/.test(args[at - 1] ?? '')
  return !args.includes('-s') && args.some((arg, at) => !/^[-+]/.test(arg) && !isValue(at))
}

/** Programs that run the program in their arguments -> the letters of their options with a value. */
const wrappers: Readonly<Record<string, string>> = {
  sudo: 'ugpCDhRrTtU',
  doas: 'uC',
  env: 'uCS',
  exec: 'a',
  nice: 'n',
  ionice: 'cnp',
  time: 'fo',
  timeout: 'ks',
  stdbuf: 'ioe',
  strace: 'eopsPESu',
  xargs: 'aEdILnPsi',
}
const plainWrappers = /^(?:command|builtin|nohup|chrt|setsid|unbuffer|busybox|toybox|coproc|chroot|unshare)$/
/** They have one word before the program. */
const hasLeadingWord = /^(?:timeout|chroot|chrt)$/

export function isWrapper(name: string): boolean {
  return Object.hasOwn(wrappers, name) || plainWrappers.test(name)
}

/** The programs, with arguments, that a call runs. */
export function wrappedPrograms(name: string, args: readonly string[]): string[][] {
  if (name === 'find' || name === 'fd') return findPrograms(args)
  if (name === 'git')
    return args.includes('bisect') && args.includes('run') ? [args.slice(args.indexOf('run') + 1)] : []
  const optionsWithValue = Object.hasOwn(wrappers, name)
    ? wrappers[name]
    : plainWrappers.test(name)
      ? ''
      : undefined
  if (optionsWithValue === undefined) return []
  if (name === 'command' && /^-[vV]/.test(args[0] ?? '')) return []
  let at = 0
  while (at < args.length && (args[at]?.startsWith('-') || isVariableAssignment(name, args[at]))) {
    const option = args[at] ?? ''
    at += option.length === 2 && optionsWithValue.includes(option.slice(1)) ? 2 : 1
    if (option === '--') break
  }
  if (hasLeadingWord.test(name)) at++
  while (isVariableAssignment(name, args[at])) at++
  return at < args.length ? [args.slice(at)] : []
}

function isVariableAssignment(name: string, arg: string | undefined): boolean {
  return (name === 'env' || name === 'sudo' || name === 'doas') && arg !== undefined && /^\w+=/.test(arg)
}

/** The paths that `find` searches, which follow its few leading options, those of macOS among them. */
export function findPaths(args: readonly string[]): readonly string[] {
  let start = 0
  while (/^-(?:-|D|O\d*|[EHLPXdfsx]+)$/.test(args[start] ?? '')) start += args[start] === '-D' ? 2 : 1
  const paths = args.slice(start)
  const end = paths.findIndex((arg) => /^[-(!]/.test(arg))
  return end === -1 ? paths : paths.slice(0, end)
}

/** `find ... -exec program ... ;`, where `{}` is a path below the first searched directory. */
function findPrograms(args: readonly string[]): string[][] {
  const programs: string[][] = []
  const [root = '.'] = findPaths(args)
  const below = `${root.replace(/(?<=.)\/+$/, '')}/`.replace(/^\/\/$/, '/')
  for (let at = 0; at < args.length; at++) {
    if (!/^-(?:exec|execdir|ok|okdir|x|X)$/.test(args[at] ?? '')) continue
    const start = at + 1
    while (at < args.length && args[at] !== ';' && args[at] !== '+') at++
    programs.push(args.slice(start, at).map((word) => word.replaceAll('{}', `${below}found`)))
  }
  return programs
}

/** The remote command of ssh. */
export function remoteCommand(args: readonly string[]): string[] {
  let at = 0
  while (at < args.length && args[at]?.startsWith('-'))
    at += /^-[bcDEeFIiJLlmOopQRSWw]$/.test(args[at] ?? '') ? 2 : 1
  const command = args.slice(at + 1).join(' ')
  return command === '' ? [] : [command]
}

/** The shell texts in the arguments of git. */
export function gitCommandTexts(args: readonly string[]): string[] {
  const at = args.indexOf('foreach')
  if (at > 0) return [args.slice(at + 1).join(' ')]
  return args.includes('rebase')
    ? args.filter((_, index) => /^(?:-x|--exec)$/.test(args[index - 1] ?? ''))
    : []
}
