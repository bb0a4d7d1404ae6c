import type { Command, Option } from 'commander'
import type { Config } from '../context/config.ts'
import { contextsPath, localContext, readContexts } from '../context/contexts.ts'
import { fileSettings } from '../context/file-settings.ts'
import { sanitizeLine, truncate } from '../output/sanitize.ts'
import type { ServerSelection, SourceContext } from './server-selection.ts'

/** The hidden word by which shells ask for completions. */
const completeWord = '__complete'

interface Candidate {
  readonly value: string
  readonly description: string
}

interface CompletionDeps {
  readonly config: Config
  readonly selection: ServerSelection
  source(): SourceContext
}

const maxConversations = 50

/**
 * What may stand for the last word of a command line, one `value<tab>description` a line: commands, flags,
 * their values, contexts, and conversations with their titles. Nothing when the server does not answer.
 */
export async function completeWords(
  slipway: Command,
  words: readonly string[],
  deps: CompletionDeps,
): Promise<string> {
  const last = words.at(-1) ?? ''
  const { command, position, option } = walk(slipway, words.slice(0, -1))
  const candidates = await candidatesFor({ slipway, command, position, option, last }, deps).catch(() => [])
  return candidates
    .filter(({ value }) => value.startsWith(last))
    .map(({ value, description }) => `${value}\t${truncate(sanitizeLine(description), 60)}\n`)
    .join('')
}

interface Place {
  readonly slipway: Command
  readonly command: Command
  /** How many arguments of the command are there. */
  readonly position: number
  /** The flag whose value is written. */
  readonly option: Option | undefined
  readonly last: string
}

async function candidatesFor(
  { slipway, command, position, option, last }: Place,
  deps: CompletionDeps,
): Promise<Candidate[]> {
  if (option !== undefined) {
    if (option.attributeName() === 'conversation') return await conversations(deps)
    if (option.attributeName() === 'context') return await contexts(deps)
    return (option.argChoices ?? []).map((value) => ({ value, description: '' }))
  }
  if (last.startsWith('-')) {
    const options = [...command.options, ...slipway.options].filter(({ hidden }) => !hidden)
    return options.flatMap(({ long, description }) => (long ? [{ value: long, description }] : []))
  }
  if (command.commands.length > 0) {
    return visibleCommands(command).map((one) => ({ value: one.name(), description: one.description() }))
  }
  const argument = command.registeredArguments[position] ?? command.registeredArguments.at(-1)
  if (argument !== undefined && /^ids?$/.test(argument.name()) && isConversationCommand(command))
    return await conversations(deps)
  if (argument?.name() === 'key' && command.parent?.name() === 'config' && position === 0)
    return [...fileSettings.values()].map(({ key, schema }) => ({
      value: key,
      description: schema.description,
    }))
  if (command.parent?.name() === 'context' && /^(use|rm)$/.test(command.name())) return await contexts(deps)
  return []
}

/** The subcommands that the help lists. */
export function visibleCommands(command: Command): readonly Command[] {
  const visible = command.createHelp().visibleCommands(command)
  return command.commands.filter((one) => visible.includes(one))
}

/** `sandbox pause ID` names a sandbox. */
function isConversationCommand(command: Command): boolean {
  return command.parent?.name() !== 'sandbox'
}

/** The command of the words, how many arguments it has, and a flag that waits for its value. */
function walk(slipway: Command, words: readonly string[]) {
  let command = slipway
  let position = 0
  let option: Option | undefined
  for (const word of words) {
    if (option !== undefined) option = undefined
    else if (word.startsWith('-')) {
      const found = [...command.options, ...slipway.options].find(
        ({ long, short }) => word === long || word === short,
      )
      option = found?.required === true ? found : undefined
      if (word === '--last') position++
    } else {
      const next = command.commands.find((one) => one.name() === word)
      if (next === undefined) position++
      else command = next
    }
  }
  return { command, position, option }
}

async function conversations({ config, selection, source }: CompletionDeps): Promise<Candidate[]> {
  await selection.selectRunning(config.dataDirectory)
  const { items } = await source().source.list({ limit: maxConversations })
  return items.map(({ id, title, status }) => ({ value: id.slice(0, 8), description: title || status }))
}

async function contexts({ config }: CompletionDeps): Promise<Candidate[]> {
  const { servers } = await readContexts(contextsPath(config.env))
  const named = [...servers].map(([name, { url }]) => ({ value: name, description: url }))
  return servers.has(localContext) ? named : [...named, { value: localContext, description: 'this machine' }]
}

/** Scripts that ask the command itself. */
export const completionScripts: Readonly<Record<string, string>> = {
  bash: `_slipway() {
  local IFS=$'\\n'
  COMPREPLY=($(slipway ${completeWord} "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _slipway slipway
`,
  zsh: `#compdef slipway
_slipway() {
  local -a found
  found=("\${(@f)$(slipway ${completeWord} "\${(@)words[2,CURRENT]}" 2>/dev/null | sed -e 's/:/\\\\:/g' -e 's/\\t/:/')}")
  if [[ -n "\${found[1]}" ]]; then _describe slipway found; else _files; fi
}
compdef _slipway slipway
`,
  fish: `complete -c slipway -f -a '(slipway ${completeWord} (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
}
