import { type Command, Option } from 'commander'
import { type Config, selectModel } from '../context/config.ts'
import { idText } from './conversation-commands.ts'
import { commandRules, integerFlag, listFlag, positiveFlag, ruleTexts } from './flags.ts'
import type { ConversationDeps } from './server-selection.ts'

interface RunFlags {
  readonly model?: string
  readonly baseUrl?: string
  readonly workspace?: string
  readonly conversation?: string
  readonly yes: boolean
  /** Undefined: a conversation keeps what it has. */
  readonly ask?: boolean
  readonly maxIterations?: number
  readonly maxCost?: number
  readonly maxTokens?: number
  readonly maxTime?: number
  readonly outputSchema?: string
  readonly detach: boolean
  readonly allow?: readonly string[]
  readonly askBefore?: readonly string[]
  readonly deny?: readonly string[]
  readonly secret?: readonly string[]
}

const runControl = () => import('../commands/conversations/run-control.ts')
const checkpoints = () => import('../commands/conversations/checkpoints.ts')

/** The command that runs an agent. */
export function addRunCommand(
  slipway: Command,
  config: Config,
  { context, conversation, outcome }: ConversationDeps,
): void {
  slipway
    .command('run')
    .description('run an agent: start or continue a conversation, and follow it')
    .argument('[message]', 'the message, or - for standard input; optional when continuing')
    .option('--model <provider/name>', 'the model (or LLM_MODEL); its key comes from LLM_API_KEY')
    .option('--base-url <address>', 'address of the model (or LLM_BASE_URL)')
    .option(
      '--workspace <directory>',
      'working directory on the machine of the server; default: the current one',
    )
    .option('--conversation <id>', `continue this conversation: ${idText}`)
    .addOption(new Option('--yes', 'accept all confirmations').default(false).conflicts('ask'))
    .option('--ask', 'ask for confirmation of every action, also in later runs')
    .option('--no-ask', 'ask for risky actions only, as without --ask')
    .option('--max-iterations <number>', 'maximum steps of one run', integerFlag(1, 1_000_000))
    .option('--max-cost <dollars>', 'limit of the cost of a run', positiveFlag)
    .option('--max-tokens <number>', 'limit of input and output tokens of a run', integerFlag(1, 1e12))
    .option('--max-time <seconds>', 'limit of the time of a run', positiveFlag)
    .option('--allow <pattern>', ruleTexts.allow, listFlag)
    .option('--ask-before <pattern>', ruleTexts.askBefore, listFlag)
    .option('--deny <pattern>', ruleTexts.deny, listFlag)
    .option('--secret <name>', 'let commands use this secret, see "slipway secrets"; repeatable', listFlag)
    .option('--detach', 'leave it running on the server; "slipway logs -f" follows it', false)
    .option('--output-schema <file>', 'JSON Schema of type object for the final answer')
    .addHelpText('after', '\nExit codes: 0 finished, 1 failed, 3 waits for confirmation.')
    .action(async (message: string | undefined, flags: RunFlags, command: Command) => {
      const isNew = flags.conversation === undefined
      if (isNew && message === undefined) command.error('A new conversation needs a message.')
      const isFixed =
        flags.workspace !== undefined ||
        flags.maxIterations !== undefined ||
        flags.outputSchema !== undefined ||
        flags.secret !== undefined
      if (!isNew && isFixed)
        command.error(
          '--workspace, --max-iterations, --output-schema and --secret are for a new conversation.',
        )
      const { runCommand } = await import('../commands/conversations/run.ts')
      const found = flags.conversation === undefined ? undefined : await conversation(flags.conversation)
      outcome.code = await runCommand(found?.context ?? context(), message, {
        conversation: found?.id,
        workspace: flags.workspace ?? '.',
        model: modelOfRun(config, flags, isNew),
        isYes: flags.yes,
        isAsking: flags.ask,
        maxIterations: flags.maxIterations,
        outputSchema: flags.outputSchema,
        secrets: flags.secret,
        isDetached: flags.detach,
        rules: commandRules(flags),
        limits: { cost: flags.maxCost, tokens: flags.maxTokens, seconds: flags.maxTime },
      })
    })
}

/** A conversation keeps its model unless a flag names another. */
function modelOfRun(config: Config, flags: RunFlags, isNew: boolean) {
  const { name, ...rest } = selectModel(config, flags)
  return name === undefined || (!isNew && flags.model === undefined) ? undefined : { ...rest, name }
}

/** The command that decides what repositories may run. */
export function addTrustCommand(slipway: Command, deps: ConversationDeps): void {
  slipway
    .command('trust')
    .description(
      'show the hooks, agents and scripts that a repository brings, and decide whether they may run',
    )
    .argument(
      '[target]',
      'directory on the machine of the agent server (default: the current one), or the id of a consent; of a sandbox server: default all that wait',
    )
    .option('--list', 'list all decisions', false)
    .addOption(new Option('--yes', 'allow without asking').default(false).conflicts('deny'))
    .option('--deny', 'deny without asking', false)
    .option('--revoke', 'forget the decision for this repository', false)
    .action(async (target: string | undefined, flags: TrustFlags) => {
      const { trustCommand } = await import('../commands/conversations/trust.ts')
      deps.outcome.code = await trustCommand({ ...deps.source(), agent: deps.context }, target, flags)
    })
}

interface TrustFlags {
  readonly list: boolean
  readonly yes: boolean
  readonly deny: boolean
  readonly revoke: boolean
}

interface ConfirmFlags {
  readonly reject: boolean
  readonly reason?: string
  readonly stop: boolean
  readonly follow: boolean
  readonly action?: readonly string[]
}

/** The commands that act on an existing conversation. */
export function addRunControlCommands(slipway: Command, deps: ConversationDeps): void {
  addStopCommands(slipway, deps)
  addConfirmCommand(slipway, deps)
  addCopyCommands(slipway, deps)
}

function addStopCommands(slipway: Command, { conversation }: ConversationDeps): void {
  const stops = [
    ['pause', 'pauseConversation', 'stop a run after the current step'],
    ['interrupt', 'interruptConversation', 'stop a run immediately'],
  ] as const
  for (const [name, route, description] of stops) {
    slipway
      .command(name)
      .description(description)
      .argument('<id>', idText)
      .action(async (text: string) => {
        const { context, id } = await conversation(text)
        await (await runControl()).stopCommand(context, id, route)
      })
  }
}

function addConfirmCommand(slipway: Command, { conversation, outcome }: ConversationDeps): void {
  slipway
    .command('confirm')
    .description('accept or reject pending actions')
    .argument('<id>', idText)
    .option('--reject', 'reject them', false)
    .option('--reason <text>', 'with --reject: the agent reads the reason and continues')
    .option('--stop', 'with --reject and --reason: the run stops all the same', false)
    .option('--follow', 'follow the run, as "run" does', false)
    .option(
      '--action <id>',
      'answer only if this action waits, see "slipway pending --json"; repeatable for several',
      listFlag,
    )
    .addHelpText('after', '\nA rejection without a reason stops the run.')
    .action(async (text: string, flags: ConfirmFlags, command: Command) => {
      const { reject: isReject, reason, follow: isFollowing, stop: isStopped, action = [] } = flags
      if ((reason !== undefined || isStopped) && !isReject)
        command.error('--reason and --stop go with --reject.')
      const { context, id } = await conversation(text)
      const answer = { isReject, reason, isFollowing, isStopped, actionIds: action }
      outcome.code = await (await runControl()).confirmCommand(context, id, answer)
    })
}

/** What leaves the conversation as it is: questions, forks, states of the workspace. */
function addCopyCommands(slipway: Command, { conversation }: ConversationDeps): void {
  slipway
    .command('ask')
    .description('ask a question about a conversation without changing its log')
    .argument('<id>', idText)
    .argument('<question>', 'the question')
    .action(async (text: string, question: string) => {
      const { context, id } = await conversation(text)
      await (await runControl()).askCommand(context, id, question)
    })
  slipway
    .command('fork')
    .description('copy a conversation into a new one')
    .argument('<id>', idText)
    .option('--title <title>', 'title of the copy')
    .option('--from-event <id>', 'copy up to this event')
    .action(async (text: string, options: { title?: string; fromEvent?: string }) => {
      const { context, id } = await conversation(text)
      await (await runControl()).forkCommand(context, id, options)
    })
  slipway
    .command('checkpoints')
    .description('list the stored states of the workspace, or show what changed after one of them')
    .argument('<id>', idText)
    .argument('[checkpoint]', 'id of a checkpoint')
    .action(async (text: string, checkpoint?: string) => {
      const { context, id } = await conversation(text)
      await (await checkpoints()).checkpointsCommand(context, id, checkpoint)
    })
  slipway
    .command('rollback')
    .description('restore the workspace to a checkpoint; what is there becomes a checkpoint first')
    .argument('<id>', idText)
    .argument('<checkpoint>', 'id of the checkpoint')
    .action(async (text: string, checkpoint: string) => {
      const { context, id } = await conversation(text)
      await (await checkpoints()).restoreCommand(context, id, checkpoint)
    })
}
