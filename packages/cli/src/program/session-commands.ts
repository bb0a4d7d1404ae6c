import { Problem } from '@slipway/protocol/client'
import type { Command } from 'commander'
import { type Config, selectModel } from '../context/config.ts'
import { idText } from './conversation-commands.ts'
import { commandRules, listFlag, ruleTexts } from './flags.ts'
import type { ConversationDeps, ServerSelection } from './server-selection.ts'

interface SessionDeps extends ConversationDeps {
  readonly config: Config
  readonly selection: ServerSelection
}

interface AgentFlags {
  readonly model?: string
  readonly baseUrl?: string
  readonly ask: boolean
  readonly allow?: readonly string[]
  readonly askBefore?: readonly string[]
  readonly deny?: readonly string[]
}

interface SessionFlags extends AgentFlags {
  readonly print?: string | true
  readonly workspace: string
  readonly screenReader: boolean
}

const screenReaderText = 'print whole lines and draw nothing again (or SLIPWAY_SCREEN_READER=1)'

function isTerminal(): boolean {
  return process.stdin.isTTY === true && process.stdout.isTTY === true
}

/** The conversation in the terminal. */
export function addSessionCommands(
  slipway: Command,
  { config, selection, context, conversation, outcome }: SessionDeps,
): void {
  const revive = () => selection.revive()
  const isPlain = (flag: boolean) => flag || config.own.isPlain || config.env.TERM === 'dumb'
  slipway
    .command('session')
    .description('have a conversation in the terminal; "slipway" alone does the same')
    .option('-p, --print [message]', 'run one message and print what happens; - or nothing is standard input')
    .option('--model <provider/name>', 'the model (or LLM_MODEL); asked for and kept otherwise')
    .option('--base-url <address>', 'address of the model (or LLM_BASE_URL)')
    .option('--workspace <directory>', 'working directory', '.')
    .option('--ask', 'ask for confirmation of every action', false)
    .option('--allow <pattern>', ruleTexts.allow, listFlag)
    .option('--ask-before <pattern>', ruleTexts.askBefore, listFlag)
    .option('--deny <pattern>', ruleTexts.deny, listFlag)
    .option('--screen-reader', screenReaderText, false)
    .hook('preAction', async () => void (await selection.select(config.dataDirectory, ['agent'], 'session')))
    .action(async ({ print, model, baseUrl, workspace, screenReader, ...flags }: SessionFlags) => {
      const confirmation = { isAsking: flags.ask, rules: commandRules(flags) }
      const selected = namedModel(config, { model, baseUrl })
      if (print === undefined && isTerminal()) {
        const { sessionCommand } = await import('../session/session-command.ts')
        await sessionCommand(context(), {
          ...{ config, revive, directory: workspace, id: undefined, model: selected, confirmation },
          isPlain: isPlain(screenReader),
        })
        return
      }
      const { printCommand } = await import('../session/print-command.ts')
      const message = typeof print === 'string' ? print : '-'
      outcome.code = await printCommand(context(), message, { workspace, model: selected, confirmation })
    })
  slipway
    .command('attach')
    .description('join a conversation in the terminal')
    .argument('<id>', idText)
    .option('--screen-reader', screenReaderText, false)
    .hook('preAction', async () => void (await selection.select(config.dataDirectory, ['agent', 'sandbox'])))
    .action(async (text: string, { screenReader }: Pick<SessionFlags, 'screenReader'>) => {
      const found = await conversation(text)
      if (!isPlain(screenReader) && !isTerminal())
        throw new Problem(
          'bad_request',
          `This needs a terminal. Follow it as text with: slipway logs -f ${found.id.slice(0, 8)}`,
        )
      const { sessionCommand } = await import('../session/session-command.ts')
      await sessionCommand(found.context, {
        ...{ config, revive, directory: '.', id: found.id, model: undefined },
        isPlain: isPlain(screenReader),
      })
    })
  addAcpCommand(slipway, { config, selection, context })
  slipway
    .command('stop')
    .description('stop the private server of the sessions; runs that continue are paused')
    .action(async () => {
      const { stopCommand } = await import('../session/stop-command.ts')
      await stopCommand(config.env, slipway.opts<{ json: boolean }>().json)
    })
}

/** Editors start it; its standard output is the protocol's alone. */
function addAcpCommand(
  slipway: Command,
  { config, selection, context }: Pick<SessionDeps, 'config' | 'selection' | 'context'>,
): void {
  slipway
    .command('acp')
    .description('be the agent of an editor (Agent Client Protocol over standard input and output)')
    .option('--setup', 'choose a model in the terminal, keep it, and end', false)
    .option('--model <provider/name>', 'the model of new sessions (or LLM_MODEL); the kept one otherwise')
    .option('--base-url <address>', 'address of the model (or LLM_BASE_URL)')
    .option('--ask', 'new sessions ask for confirmation of every action', false)
    .option('--allow <pattern>', ruleTexts.allow, listFlag)
    .option('--ask-before <pattern>', ruleTexts.askBefore, listFlag)
    .option('--deny <pattern>', ruleTexts.deny, listFlag)
    .hook('preAction', async () => void (await selection.select(config.dataDirectory, ['agent'], 'session')))
    .action(async ({ setup, model, baseUrl, ...flags }: AgentFlags & { readonly setup: boolean }) => {
      if (setup) {
        const { askModel } = await import('../session/choose-model.ts')
        const { client, signal } = context()
        await askModel(client, signal)
        return
      }
      const { acpCommand } = await import('../acp/acp-command.ts')
      await acpCommand(context(), {
        model: namedModel(config, { model, baseUrl }),
        confirmation: { isAsking: flags.ask, rules: commandRules(flags) },
        revive: () => selection.revive(),
      })
    })
}

function namedModel(config: Config, flags: Parameters<typeof selectModel>[1]) {
  const { name, ...rest } = selectModel(config, flags)
  return name === undefined ? undefined : { ...rest, name }
}

/** `slipway` alone, or with flags only, is `slipway session`. */
export function withSessionCommand(args: readonly string[], commands: readonly string[]): readonly string[] {
  const isOther = args.some((arg) => /^(-h|--help|-v|--version|help)$/.test(arg) || commands.includes(arg))
  return isOther || !(args[0] ?? '-').startsWith('-') ? args : ['session', ...args]
}
