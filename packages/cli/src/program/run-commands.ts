import { type Command, Option } from 'commander'
import type { CommandContext } from '../context/command-context.ts'
import type { Config } from '../context/config.ts'
import { integerFlag } from './flags.ts'

/** What these commands need: the context, and where the exit code goes. */
interface RunCommandDeps {
  readonly context: () => CommandContext
  readonly outcome: { code: number }
}

interface RunFlags {
  readonly model?: string
  readonly baseUrl?: string
  readonly workspace?: string
  readonly conversation?: string
  readonly yes: boolean
  readonly ask: boolean
  readonly maxIterations?: number
}

/** The command that runs an agent. */
export function addRunCommand(slipway: Command, config: Config, { context, outcome }: RunCommandDeps): void {
  slipway
    .command('run')
    .description('let an agent work: start a conversation or go on with one, and follow it')
    .argument('[message]', 'what to do, or - for standard input; may be left out to go on')
    .option('--model <provider/name>', 'the model (or LLM_MODEL); its key comes from LLM_API_KEY')
    .option('--base-url <address>', 'where the model is (or LLM_BASE_URL)')
    .option('--workspace <directory>', 'where to work, on the machine of the server; here unless given')
    .option('--conversation <id>', 'go on with this conversation')
    .addOption(new Option('--yes', 'accept what waits for confirmation').default(false).conflicts('ask'))
    .option('--ask', 'let every action wait for confirmation', false)
    .option('--max-iterations <number>', 'steps of one run', integerFlag(1, 1_000_000))
    .addHelpText('after', '\nExit codes: 0 finished, 1 ended otherwise, 3 waits for an answer.')
    .action(async (message: string | undefined, flags: RunFlags, command: Command) => {
      const isNew = flags.conversation === undefined
      if (isNew && message === undefined) command.error('A new conversation needs a message.')
      const isFixed = flags.workspace !== undefined || flags.maxIterations !== undefined
      if (!isNew && isFixed) command.error('--workspace and --max-iterations are for a new conversation.')
      const { runCommand } = await import('../commands/run.ts')
      outcome.code = await runCommand(context(), message, {
        conversation: flags.conversation,
        workspace: flags.workspace ?? '.',
        model: selectModel(config, flags, isNew),
        isYes: flags.yes,
        isAsking: flags.ask,
        maxIterations: flags.maxIterations,
      })
    })
}

/** A conversation keeps its model unless a flag names another. */
function selectModel({ model }: Config, flags: RunFlags, isNew: boolean) {
  const name = flags.model ?? (isNew ? model.name : undefined)
  return name === undefined ? undefined : { ...model, name, baseUrl: flags.baseUrl ?? model.baseUrl }
}

/** The commands that act on an existing conversation. */
export function addRunControlCommands(slipway: Command, { context, outcome }: RunCommandDeps): void {
  const stops = [
    ['pause', 'pauseConversation', 'let a run end after the step that is under way'],
    ['interrupt', 'interruptConversation', 'end a run now'],
  ] as const
  for (const [name, route, description] of stops) {
    slipway
      .command(name)
      .description(description)
      .argument('<id>', 'id of the conversation')
      .action(async (id: string) => {
        const { stopCommand } = await import('../commands/run-control.ts')
        await stopCommand(context(), id, route)
      })
  }
  slipway
    .command('confirm')
    .description('accept or reject the actions that wait')
    .argument('<id>', 'id of the conversation')
    .option('--reject', 'do not let them be done', false)
    .option('--reason <text>', 'what the agent is told of a rejection')
    .option('--follow', 'follow the run, as "run" does', false)
    .action(
      async (id: string, flags: { reject: boolean; reason?: string; follow: boolean }, command: Command) => {
        if (flags.reason !== undefined && !flags.reject) command.error('--reason goes with --reject.')
        const { confirmCommand } = await import('../commands/run-control.ts')
        const { reject: isReject, reason, follow: isFollowing } = flags
        outcome.code = await confirmCommand(context(), id, { isReject, reason, isFollowing })
      },
    )
  slipway
    .command('ask')
    .description('ask about a conversation, beside it')
    .argument('<id>', 'id of the conversation')
    .argument('<question>', 'the question')
    .action(async (id: string, question: string) => {
      const { askCommand } = await import('../commands/run-control.ts')
      await askCommand(context(), id, question)
    })
  slipway
    .command('fork')
    .description('copy a conversation into a new one')
    .argument('<id>', 'id of the conversation')
    .option('--title <title>', 'title of the copy')
    .option('--from-event <id>', 'copy up to this event')
    .action(async (id: string, options: { title?: string; fromEvent?: string }) => {
      const { forkCommand } = await import('../commands/run-control.ts')
      await forkCommand(context(), id, options)
    })
}
