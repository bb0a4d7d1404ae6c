import { compareRisk, type SecurityRisk } from '@slipway/protocol'
import { isOutside, isSecret, isSystem } from './paths.ts'
import { interpreters, isCatastrophe, isDecoder, isNetwork, isRawDisk, programRisk } from './rules.ts'
import { type Call, readScript, type Script } from './script.ts'
import { unknown } from './words.ts'
import { hasScript } from './wrappers.ts'

/** A longer text is not looked at: nobody reads it before he agrees. */
const maxLength = 100_000
/** Variables that make another program run the caller's code. */
const hijacks =
  /^(?:LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|DYLD_\w+|BASH_ENV|ENV|PROMPT_COMMAND|GIT_SSH_COMMAND|GIT_SSH|PERL5OPT|PYTHONSTARTUP)$/

/**
 * The risk of a shell text, told by rules from what it would run: the greatest of its parts, also of those inside of
 * substitutions, wrappers such as `sudo` and `xargs`, and texts for other shells. HIGH: destroys, gives secrets away, runs
 * what came from elsewhere, weakens the machine. MEDIUM: installs, talks to other machines, deletes, leaves the directory,
 * runs what cannot be told from the text. LOW: the rest. UNKNOWN: no shell syntax or too long, and nothing found in what could be read.
 * A guide for whom to ask, no wall: a program that the text starts can do what it likes.
 */
export async function patternRisk(command: string): Promise<SecurityRisk> {
  return await assess(command, scriptRisk)
}

/**
 * HIGH for what is never right unseen: what came over the network is run, a disk is written past its files, the system, a
 * home or everything here is deleted, processes multiply without end. LOW for all else, UNKNOWN for what is no shell syntax, too long, or nested too deep.
 */
export async function railRisk(command: string): Promise<SecurityRisk> {
  return await assess(command, ({ calls, isBomb }) => {
    const isStopped = calls.some((call) => runs(call, isNetwork) || isRawDisk(call) || isCatastrophe(call))
    return isStopped || isBomb || runsDownload(calls) ? 'HIGH' : 'LOW'
  })
}

async function assess(command: string, rule: (script: Script) => SecurityRisk): Promise<SecurityRisk> {
  if (command.length > maxLength) return 'UNKNOWN'
  const script = await readScript(command)
  const risk = rule(script)
  return (script.hasErrors || script.isTooDeep) && risk !== 'HIGH' ? 'UNKNOWN' : risk
}

function scriptRisk({ calls, isBomb, isTooDeep }: Script): SecurityRisk {
  // Nobody nests that deep for others to read.
  if (isBomb || isTooDeep || runsDownload(calls)) return 'HIGH'
  return calls.map(callRisk).reduce(greater, 'LOW')
}

function greater(a: SecurityRisk, b: SecurityRisk): SecurityRisk {
  return compareRisk(a, b) > 0 ? a : b
}

function callRisk(call: Call): SecurityRisk {
  if (isCatastrophe(call) || isRawDisk(call)) return 'HIGH'
  if (runs(call, isNetwork) || runs(call, isDecoder) || givesSecretsAway(call)) return 'HIGH'
  if ([...call.writes, ...call.reads].some((path) => /^\/dev\/(?:tcp|udp)\//.test(path))) return 'HIGH'
  if ([...call.assigned.keys()].some((name) => hijacks.test(name))) return 'HIGH'
  return [nameRisk(call), fileRisk(call), programRisk(call)].reduce(greater)
}

/** A program that is worked out at run time: by another program, by a pattern of files, or by a variable. */
function nameRisk({ name, inner }: Call): SecurityRisk {
  if (/[*?[\]]/.test(name) && name !== '[' && name !== '[[') return 'HIGH'
  if (!name.includes(unknown)) return 'LOW'
  return inner.length > 0 ? 'HIGH' : 'MEDIUM'
}

function fileRisk({ name, args, writes, reads }: Call): SecurityRisk {
  if (writes.some((path) => isSystem(path) || isLogin(path))) return 'HIGH'
  if (writes.some(isOutside) || [...args, ...reads].some(isSecret)) return 'MEDIUM'
  return /^(?:tee|cp|mv|install|ln)$/.test(name) && args.some(isLogin) ? 'HIGH' : 'LOW'
}

/** Who may log in. */
function isLogin(path: string): boolean {
  return /\.ssh\/authorized_keys$|\.ssh\/rc$/.test(path)
}

type Test = (call: Call) => boolean
const answers = new WeakMap<readonly Call[], Map<Test, boolean>>()

/** Whether one of these is of some sort; remembered, because the calls of a long pipeline are in front of one another. */
function has(calls: readonly Call[], test: Test): boolean {
  const known = answers.get(calls) ?? new Map<Test, boolean>()
  answers.set(calls, known)
  const answer = known.get(test) ?? calls.some(test)
  known.set(test, answer)
  return answer
}

/** Whether a call takes as its program what calls of some sort give it. */
function runs(call: Call, isSource: Test): boolean {
  const { name, args, inner, upstream, input } = call
  if (name.includes(unknown)) return has(inner, isSource)
  if (/^(?:eval|source|\.)$/.test(name)) return has(inner, isSource) || has(upstream, isSource)
  if (!interpreters.test(name)) return false
  const isGiven =
    args.some((arg) => arg.includes(unknown) || arg.includes('{}')) || (input?.includes(unknown) ?? false)
  if (
    isGiven &&
    (isProgram(call) || input !== undefined) &&
    (has(inner, isSource) || has(upstream, isSource))
  )
    return true
  const isReading = input === undefined && !hasScript(args) && !args.some((arg) => /^-[a-z]*[ce]$/.test(arg))
  return isReading && has(upstream, isSource)
}

/** The unknown word is the program itself or its file, not a mere argument of it. */
function isProgram({ args }: Call): boolean {
  const first = args.findIndex((arg) => !arg.startsWith('-'))
  return args[first]?.includes(unknown) === true || args[first]?.includes('{}') === true
}

/** A file is downloaded, and run later in the same text. */
function runsDownload(calls: readonly Call[]): boolean {
  const files = new Set<string>()
  for (const call of calls) {
    const isScript = interpreters.test(call.name) || /^(?:source|\.|chmod)$/.test(call.name)
    if (files.has(call.name) || (isScript && call.args.some((arg) => files.has(lastPart(arg))))) return true
    if (isNetwork(call)) for (const file of downloads(call)) files.add(lastPart(file))
    if (has(call.upstream, isNetwork))
      for (const file of [...call.writes, ...(call.name === 'tee' ? call.args : [])])
        files.add(lastPart(file))
  }
  return false
}

function downloads({ name, args, writes }: Call): string[] {
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

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** Keys for logging in are no gift to the other side. */
const keyOptions = {
  web: /^(?:-E|--key|--cert|--cacert|--netrc-file)$/,
  others: /^(?:-i|-F|--identity)$/,
}

function givesSecretsAway(call: Call): boolean {
  if (!isNetwork(call)) return false
  const options = /^(?:curl|wget)$/.test(call.name) ? keyOptions.web : keyOptions.others
  const given = call.args.filter((_, at) => !options.test(call.args[at - 1] ?? ''))
  const isTold = [...given, ...call.reads].flatMap((arg) => [arg, ...arg.split(/[@=:,]/)]).some(isSecret)
  return isTold || has(call.upstream, readsSecret) || has(call.inner, readsSecret)
}

function readsSecret({ name, args, reads }: Call): boolean {
  if (
    name === 'printenv' ||
    name === 'security' ||
    ((name === 'env' || name === 'set' || name === 'export') && args.every((arg) => arg.startsWith('-')))
  )
    return true
  return [...args, ...reads].some(isSecret)
}
