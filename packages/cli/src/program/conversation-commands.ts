import type { Command } from 'commander'
import type { Config } from '../context/config.ts'
import { cursorFlag, integerFlag } from './flags.ts'
import type { ConversationDeps } from './server-selection.ts'

/** How an argument that names a conversation is described. */
export const idText = 'id of the conversation, its first characters, its title or a part of it, or --last'

/** The verbs that are the same on agent servers and on sandbox servers. */
export function addConversationCommands(slipway: Command, { source, find }: ConversationDeps): void {
  const verbs = () => import('../commands/conversations/conversations.ts')
  const logs = () => import('../commands/conversations/logs.ts')
  for (const list of [slipway.command('ls'), slipway.command('conversations', { hidden: true })])
    addListOptions(list).action(
      async (title: string | undefined, { quiet: isQuiet, here, ...options }: ListFlags) => {
        const directory = here ? process.cwd() : undefined
        await (await verbs()).listCommand(source(), { ...options, isQuiet, title, directory })
      },
    )
  slipway
    .command('show')
    .description('show a conversation: what it is, what it cost, what it waits for')
    .argument('<id>', idText)
    .action(async (text: string) => {
      const { context, id } = await find(text)
      await (await verbs()).showCommand(context, id)
    })
  slipway
    .command('rename')
    .description('give a conversation a title')
    .argument('<id>', idText)
    .argument('<title>', 'the title')
    .action(async (text: string, title: string) => {
      const { context, id } = await find(text)
      await (await verbs()).renameCommand(context, id, title)
    })
  slipway
    .command('rm')
    .description('delete conversations with their logs; in sandboxes also the sandbox unless others use it')
    .argument('<ids...>', 'id of the conversation, its first characters, its whole title, or --last')
    .option('-y, --yes', 'do not ask in a terminal', false)
    .action(async (texts: string[], { yes: isConfirmed }: { yes: boolean }) => {
      // All of them are found before the first one goes.
      const found = await Promise.all(texts.map((text) => find(text, 'whole')))
      const ids = found.map(({ id }) => id)
      await (await verbs()).removeCommand(source(), ids, { isConfirmed })
    })
  slipway
    .command('send')
    .description('send a message to a conversation and run it')
    .argument('<id>', idText)
    .argument('<message>', 'the message')
    .action(async (text: string, message: string) => {
      const { context, id } = await find(text)
      await (await logs()).sendCommand(context, id, message)
    })
  slipway
    .command('logs')
    .description('print the steps of a conversation as text')
    .argument('<id>', idText)
    .option('-f, --follow', 'continue with what comes, until Ctrl-C', false)
    .option('--after <cursor>', 'start after this position', cursorFlag, '0')
    .action(async (text: string, { follow, after }: { follow: boolean; after: string }) => {
      const { context, id } = await find(text)
      await (await logs()).logsCommand(context, id, { isFollowing: follow, after })
    })
  slipway
    .command('pending')
    .description('list what waits for a person, over all conversations')
    .action(async () => (await verbs()).pendingCommand(source()))
}

function addListOptions(list: Command): Command {
  return list
    .description('list conversations, the last changed first')
    .argument('[text]', 'only those with this text in their title, in any case')
    .option('--here', 'only those that work in the current directory, or below it', false)
    .option('--status <status>', 'only those with this status, for example idle')
    .option('-n, --limit <number>', 'conversations a page', integerFlag(1, 100), 20)
    .option('--all', 'print all pages', false)
    .option('-q, --quiet', 'print ids only', false)
}

interface ListFlags {
  readonly limit: number
  readonly all: boolean
  readonly status?: string
  readonly quiet: boolean
  readonly here: boolean
}

interface ContextDeps {
  readonly config: Config
  readonly signal: AbortSignal
}

/** The commands for named servers. */
export function addContextCommands(slipway: Command, { config, signal }: ContextDeps): void {
  const { env, dataDirectory } = config
  const deps = () => ({ env, dataDirectory, signal, isJson: slipway.opts<{ json: boolean }>().json })
  const load = () => import('../commands/settings/contexts.ts')
  const context = slipway
    .command('context')
    .description('name servers and choose the one that commands use; keys lie in a private file')
  context
    .command('ls', { isDefault: true })
    .description('list the contexts')
    .action(async () => (await load()).listContextsCommand(deps()))
  context
    .command('add')
    .description('add a context, tested, and make it the current one')
    .argument('<name>', 'name of the context')
    .argument('<url>', 'address of an agent server or a sandbox server')
    .option('--key-file <file>', 'file of its key, - for standard input; the terminal asks otherwise')
    .option('--no-key', 'the server needs no key, or its key is in its data directory')
    .option('--no-use', 'leave the current context as it is')
    .action(async (name: string, url: string, flags: { keyFile?: string; key: boolean; use: boolean }) => {
      const { keyFile, key: hasKey, use: isUsed } = flags
      await (await load()).addContextCommand(deps(), name, url, { keyFile, hasKey, isUsed })
    })
  context
    .command('use')
    .description('make a context the current one')
    .argument('<name>', 'name of the context')
    .action(async (name: string) => (await load()).useContextCommand(deps(), name))
  context
    .command('rm')
    .description('forget a context and its key')
    .argument('<name>', 'name of the context')
    .action(async (name: string) => (await load()).removeContextCommand(deps(), name))
}
