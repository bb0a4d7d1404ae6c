import { Problem } from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'

/**
 * A prompt that an MCP server offers to users: they begin a message with `/server:name` and its arguments.
 */
export interface McpPrompt {
  readonly server: string
  readonly name: string
  readonly title: string | undefined
  readonly description: string | undefined
  readonly arguments: readonly McpPromptArgument[]
}

interface McpPromptArgument {
  readonly name: string
  readonly description: string | undefined
  readonly required: boolean
}

/** A prompt and how its text is asked for. */
export interface OpenMcpPrompt extends McpPrompt {
  get(
    args: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<{ readonly text: string } | { readonly failure: string }>
}

const maxArguments = 50

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value : undefined

/** Prompts of an answer to `prompts/list`; those without a name that can be typed are left out. */
export function readPrompts(server: string, answer: unknown): McpPrompt[] {
  const { prompts } = asRecord(answer)
  const list: unknown[] = Array.isArray(prompts) ? prompts : []
  return list.flatMap((entry) => {
    const { name, title, description, arguments: args } = asRecord(entry)
    if (typeof name !== 'string' || !/^\S{1,200}$/.test(name)) return []
    const own: unknown[] = Array.isArray(args) ? args.slice(0, maxArguments) : []
    const known = own.map(asRecord).flatMap((one) => {
      const argument = textOf(one.name)
      if (argument === undefined) return []
      return [{ name: argument, description: textOf(one.description), required: one.required === true }]
    })
    return [{ server, name, title: textOf(title), description: textOf(description), arguments: known }]
  })
}

/** The server and the rest of a message that may begin with a prompt; undefined for any other message. */
export function findPromptCommand(
  message: string,
  servers: readonly string[],
): { readonly server: string; readonly name: string; readonly rest: string } | undefined {
  const [, command, rest = ''] = /^\s*\/(\S+)([\s\S]*)$/.exec(message) ?? []
  const server = servers.find((one) => command?.startsWith(`${one}:`))
  if (command === undefined || server === undefined) return undefined
  return { server, name: command.slice(server.length + 1), rest: rest.trim() }
}

/**
 * The arguments of a prompt: words in the order of its arguments, in quotes where they have blanks, or
 * `name=value`. The last argument gets the rest. A Problem `bad_request` when a required one is missing.
 */
export function promptArguments(prompt: McpPrompt, rest: string): Record<string, string> {
  const words = [...rest.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, plain]) => double ?? single ?? plain ?? '',
  )
  // A map: servers choose the names, and every object has a member `constructor`.
  const given = new Map<string, string>()
  const open = prompt.arguments.map(({ name }) => name)
  const positional: string[] = []
  for (const word of words) {
    const [name = '', ...value] = word.split('=')
    if (value.length > 0 && open.includes(name) && !given.has(name)) given.set(name, value.join('='))
    else positional.push(word)
  }
  const left = open.filter((name) => !given.has(name))
  for (const [at, name] of left.entries()) {
    const own = at === left.length - 1 ? positional.slice(at) : positional.slice(at, at + 1)
    if (own.length > 0) given.set(name, own.join(' '))
  }
  const missing = prompt.arguments.filter(({ name, required }) => required && !given.has(name))
  if (missing.length > 0)
    throw new Problem(
      'bad_request',
      `The prompt needs ${missing.map(({ name }) => name).join(', ')}. Write ${promptUsage(prompt)}`,
    )
  return Object.fromEntries(given)
}

/** How a prompt is written: `/server:name FIRST [SECOND]`. */
export function promptUsage({ server, name, arguments: args }: McpPrompt): string {
  const words = args.map((one) => (one.required ? one.name.toUpperCase() : `[${one.name.toUpperCase()}]`))
  return [`/${server}:${name}`, ...words].join(' ')
}
