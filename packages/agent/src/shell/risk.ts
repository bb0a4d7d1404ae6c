import type { SecurityRisk } from '@slipway/protocol'
import { changesAgentConfiguration } from './agent-configuration.ts'
import { filesChangedElsewhere } from './changed-files.ts'
import { outputFiles, subcommandIndex } from './options.ts'
import {
  isBroad,
  isHomeSettings,
  isOutsideDirectory,
  isSecretFile,
  isServerData,
  isSystemPath,
} from './paths.ts'
import {
  interpreterPrograms,
  isCatastrophe,
  isDecoder,
  isNetwork,
  maxRisk,
  programRisk,
  writesRawDisk,
} from './rules.ts'
import { parseScript, type ShellCall, type ShellScript } from './script.ts'
import { searchedPaths } from './searched-paths.ts'
import { namesServer, namesServerData, type ServerPlace, searchesServerData } from './server-access.ts'
import { assignmentRisk } from './variables.ts'
import { unknownText } from './words.ts'
import { hasScriptFile } from './wrappers.ts'

/** Longer texts are HIGH without an analysis. In UTF-16 units. */
const maxLength = 32 * 1024

/**
 * The risk of a shell text by rules: the greatest risk of the calls it would make, including those in
 * substitutions, wrappers such as `sudo` and `xargs`, and texts for other shells. HIGH: destroys, leaks
 * secrets, runs downloaded code or code hidden in options and variables, weakens the machine, reaches the
 * agent server or its data directory, changes folders that configure agents, too long to analyze. MEDIUM:
 * installs, uses the network, deletes, leaves the directory, reads a whole home directory, runs unknown
 * programs or ones with unknown options, sets unknown variables for one. LOW: the rest, which is known.
 * UNKNOWN: invalid syntax, and no HIGH risk in the readable part. It is not a security boundary: a started
 * program can do anything.
 */
export async function patternRisk(command: string, server?: ServerPlace): Promise<SecurityRisk> {
  const rule = (script: ShellScript) =>
    server !== undefined && searchesServerData(script.calls, server)
      ? maxRisk('MEDIUM', scriptRisk(script))
      : scriptRisk(script)
  return await assess(command, rule, server)
}

/**
 * HIGH for what always needs a confirmation: running downloaded code, writing a raw disk, deleting the
 * system, a home or the current directory, a fork bomb, requests to the agent server, use of its data, changes
 * of folders that configure agents, a text too long to analyze. LOW for the rest, UNKNOWN
 * for invalid syntax and too deep nesting.
 */
export async function railRisk(command: string, server?: ServerPlace): Promise<SecurityRisk> {
  const rule = ({ calls, isForkBomb, isTooLong }: ShellScript) =>
    isTooLong || calls.some(isAlwaysConfirmed) || isForkBomb || runsDownload(calls) ? 'HIGH' : 'LOW'
  return await assess(command, rule, server)
}

function isAlwaysConfirmed(call: ShellCall): boolean {
  return executesOutputOf(call, isNetwork) || writesRawDisk(call) || isCatastrophe(call)
}

async function assess(
  command: string,
  rule: (script: ShellScript) => SecurityRisk,
  server: ServerPlace | undefined,
): Promise<SecurityRisk> {
  if (command.length > maxLength || (server !== undefined && namesServer(command, server))) return 'HIGH'
  const script = await parseScript(command)
  if (server !== undefined && namesServerData(command, script.calls, server)) return 'HIGH'
  if (changesAgentConfiguration(script.calls, server?.workspace)) return 'HIGH'
  const risk = rule(script)
  return (script.hasErrors || script.isTooDeep) && risk !== 'HIGH' ? 'UNKNOWN' : risk
}

function scriptRisk({ calls, functions, isForkBomb, isTooDeep, isTooLong }: ShellScript): SecurityRisk {
  if (isForkBomb || isTooDeep || isTooLong || runsDownload(calls)) return 'HIGH'
  const elsewhere = filesChangedElsewhere(calls)
  if (elsewhere.some((path) => isSystemPath(path) || isLoginFile(path) || isServerData(path))) return 'HIGH'
  const lowest = elsewhere.some(isHomeSettings) ? 'MEDIUM' : 'LOW'
  return calls.map((call) => callRisk(call, functions)).reduce(maxRisk, lowest)
}

function callRisk(call: ShellCall, functions: ReadonlySet<string>): SecurityRisk {
  if (isAlwaysConfirmed(call) || executesOutputOf(call, isDecoder) || leaksSecrets(call)) return 'HIGH'
  if ([...call.writes, ...call.reads].some((path) => /^\/dev\/(?:tcp|udp)\//.test(path))) return 'HIGH'
  // The calls of a function's body are rated on their own.
  const unknownProgram = functions.has(call.name) ? 'LOW' : 'MEDIUM'
  const risks = [nameRisk(call), fileRisk(call), assignmentRisk(call), programRisk(call) ?? unknownProgram]
  return risks.reduce(maxRisk)
}

/**
 * The risk of a program name that is computed at run time: by another program, a file pattern, or a variable.
 */
function nameRisk({ name, substitutions }: ShellCall): SecurityRisk {
  if (/[*?[\]]/.test(name) && name !== '[' && name !== '[[') return 'HIGH'
  if (!name.includes(unknownText)) return 'LOW'
  return substitutions.length > 0 ? 'HIGH' : 'MEDIUM'
}

function fileRisk(call: ShellCall): SecurityRisk {
  const { name, args, reads } = call
  const writes = [...call.writes, ...outputFiles(name, args)]
  if ([...pathArgs(call), ...writes, ...reads].some(isServerData)) return 'HIGH'
  if (writes.some((path) => isSystemPath(path) || isLoginFile(path))) return 'HIGH'
  if (searchedPaths(call).some(isBroad)) return 'MEDIUM'
  if (writes.some(isOutsideDirectory) || [...args, ...reads].some(isSecretFile)) return 'MEDIUM'
  return /^(?:tee|cp|mv|install|ln)$/.test(name) && args.some(isLoginFile) ? 'HIGH' : 'LOW'
}

/** The arguments that may be paths: without texts, messages and search patterns. */
function pathArgs({ name, args }: ShellCall): readonly string[] {
  if (/^(?:echo|printf)$/.test(name)) return []
  if (name === 'git') {
    const paths = args.filter((_, at) => !/^(?:-[a-z]*m|--message)$/.test(args[at - 1] ?? ''))
    if (args[subcommandIndex(name, args)] !== 'add') return paths
    // A pattern adds no more files than its directory does.
    return paths.map((path) => (/[*?[]/.test(fileName(path)) ? path.slice(0, -fileName(path).length) : path))
  }
  const isPatternFirst =
    /^(?:[ef]?grep|rg)$/.test(name) && !args.some((arg) => /^-\w*[ef]|^--(?:reg|file)/.test(arg))
  const pattern = isPatternFirst ? args.findIndex((arg) => !arg.startsWith('-')) : -1
  return args.filter((_, at) => at !== pattern)
}

/** Files that control who may log in. */
function isLoginFile(path: string): boolean {
  return /\.ssh\/authorized_keys$|\.ssh\/rc$/.test(path)
}

type CallPredicate = (call: ShellCall) => boolean
const predicateCache = new WeakMap<readonly ShellCall[], Map<CallPredicate, boolean>>()

/** `calls.some(test)`, cached: the calls of a long pipeline share their upstream calls. */
function someCall(calls: readonly ShellCall[], test: CallPredicate): boolean {
  const cached = predicateCache.get(calls) ?? new Map<CallPredicate, boolean>()
  predicateCache.set(calls, cached)
  const result = cached.get(test) ?? calls.some(test)
  cached.set(test, result)
  return result
}

/** Whether a call executes the output of matching calls. */
function executesOutputOf(call: ShellCall, isSource: CallPredicate): boolean {
  const { name, args, substitutions, upstream, input } = call
  if (name.includes(unknownText)) return someCall(substitutions, isSource)
  const hasSource = () => someCall(substitutions, isSource) || someCall(upstream, isSource)
  if (/^(?:eval|source|\.)$/.test(name)) return hasSource()
  if (!interpreterPrograms.test(name)) return false
  const isUnknown = (arg: string) => arg.includes(unknownText) || arg.includes('{}')
  // The program or its file is unknown, not just an argument of it.
  const isUnknownProgram = isUnknown(args.find((arg) => !arg.startsWith('-')) ?? '')
  const isUnknownInput = input !== undefined && (input.includes(unknownText) || args.some(isUnknown))
  if ((isUnknownProgram || isUnknownInput) && hasSource()) return true
  const readsStandardInput =
    input === undefined && !hasScriptFile(args) && !args.some((arg) => /^-[a-z]*[ce]$/.test(arg))
  return readsStandardInput && someCall(upstream, isSource)
}

/** Whether a file is downloaded and run later in the same text. */
function runsDownload(calls: readonly ShellCall[]): boolean {
  const files = new Set<string>()
  for (const call of calls) {
    const isScript = interpreterPrograms.test(call.name) || /^(?:source|\.|chmod)$/.test(call.name)
    if (files.has(call.name) || (isScript && call.args.some((arg) => files.has(fileName(arg))))) return true
    if (isNetwork(call)) for (const file of downloads(call)) files.add(fileName(file))
    if (someCall(call.upstream, isNetwork))
      for (const file of [...call.writes, ...(call.name === 'tee' ? call.args : [])])
        files.add(fileName(file))
  }
  return false
}

function downloads({ name, args, writes }: ShellCall): string[] {
  const files = [
    ...writes,
    ...args.filter((_, at) => /^(?:-o|--output|--output-document)$/.test(args[at - 1] ?? '')),
  ]
  if (name === 'wget') files.push(...args.filter((_, at) => args[at - 1] === '-O'))
  const isNamedByUrl = name === 'wget' || args.some((arg) => /^-[a-zA-Z]*O|^--remote-name/.test(arg))
  if (isNamedByUrl)
    files.push(...args.filter((arg) => /^\w+:\/\//.test(arg)).map((url) => url.replace(/[?#].*$/, '')))
  return files
}

function fileName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

function leaksSecrets(call: ShellCall): boolean {
  if (!isNetwork(call)) return false
  // Options for login keys do not send the key.
  const options = /^(?:curl|wget)$/.test(call.name)
    ? /^(?:-E|--key|--cert|--cacert|--netrc-file)$/
    : /^(?:-i|-F|--identity)$/
  const uploadArgs = call.args.filter((_, at) => !options.test(call.args[at - 1] ?? ''))
  const namesSecret = [...uploadArgs, ...call.reads]
    .flatMap((arg) => [arg, ...arg.split(/[@=:,]/)])
    .some(isSecretFile)
  return namesSecret || someCall(call.upstream, readsSecret) || someCall(call.substitutions, readsSecret)
}

function readsSecret({ name, args, reads }: ShellCall): boolean {
  if (/^(?:printenv|security)$/.test(name) || [...args, ...reads].some(isSecretFile)) return true
  return /^(?:env|set|export)$/.test(name) && args.every((arg) => arg.startsWith('-'))
}
