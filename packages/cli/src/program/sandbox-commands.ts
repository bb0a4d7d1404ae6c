import { SandboxServerClient } from '@slipway/client'
import { type Command, Option } from 'commander'
import type { SandboxServerContext } from '../context/command-context.ts'
import type { Config } from '../context/config.ts'
import { addAccountCommands } from './account-commands.ts'
import { addAuditCommands } from './audit-commands.ts'
import { addBudgetCommands } from './budget-commands.ts'
import { explainSandboxServerError } from './error-message.ts'
import { integerFlag, pageSizeFlag } from './flags.ts'
import { addOrganizationCommands } from './organization-commands.ts'
import type { ServerSelection } from './server-selection.ts'

interface SandboxCommandDeps {
  readonly config: Config
  readonly selection: ServerSelection
  /** `code` becomes the exit code of the command. */
  readonly outcome: { code: number }
  readonly signal: AbortSignal
}

/** Runs a command with a client; a returned number becomes the exit code. */
type RunWithClient = (work: (context: SandboxServerContext) => Promise<unknown>) => Promise<void>

const sandboxCommands = () => import('../commands/sandboxes/sandboxes.ts')
const operateCommands = () => import('../commands/sandboxes/operate.ts')
const appCommands = () => import('../commands/sandboxes/apps.ts')
const startCommands = () => import('../commands/sandboxes/app-start.ts')
const hereCommands = () => import('../here/app-here.ts')

/** The sandbox server, its demo, and the commands that talk to one. */
export function addSandboxServerCommands(
  slipway: Command,
  { config, outcome, selection, signal }: SandboxCommandDeps,
): void {
  const run: RunWithClient = async (work) => {
    const { json } = slipway.opts<{ json: boolean }>()
    const { url, key, keySource } = await selection.select(config.dataDirectory, ['sandbox'])
    const client = new SandboxServerClient({ url, apiKey: key })
    const code = await work({ client, isJson: json, signal }).catch((error: unknown) => {
      throw explainSandboxServerError(error, keySource)
    })
    outcome.code = typeof code === 'number' ? code : 0
  }
  addServerCommand(slipway, config, signal)
  addSandboxCommands(slipway, run)
  addAppCommands(slipway, run, config)
  addAccountCommands(slipway, run, async (work) => {
    await selection.select(config.dataDirectory, ['agent'])
    await work(selection.deps(outcome))
  })
  addBudgetCommands(slipway, run)
  addOrganizationCommands(slipway, run, config)
  addAuditCommands(slipway, run)
}

interface SandboxServerFlags {
  readonly host: string
  readonly port: number
  readonly data?: string
  readonly database?: string
  readonly newKey: boolean
  readonly console: boolean
  readonly open: boolean
}

function addServerCommand(slipway: Command, config: Config, signal: AbortSignal): void {
  slipway
    .command('sandbox-server')
    .description('start the sandbox server, which runs conversations in sandboxes')
    .option('--host <host>', 'address to listen on', '127.0.0.1')
    .option('--port <port>', 'port to listen on; 0 is any free one', integerFlag(0, 65_535), 3000)
    .option('--data <directory>', 'data directory; default: see "slipway data --sandboxes"')
    .option('--database <url>', 'store everything in PostgreSQL (or SLIPWAY_DATABASE_URL)')
    .option('--new-key', 'create and print another API key of the administrator', false)
    .option('--no-console', 'serve no console (or SLIPWAY_CONSOLE=false)')
    .option('--open', 'open the console in a browser', false)
    .action(async (options: SandboxServerFlags) => {
      const { sandboxServerCommand } = await import('../commands/server/sandbox-server.ts')
      const { newKey: isKeyWanted, console: hasConsole, open: isOpened, ...flags } = options
      const server = { ...flags, isKeyWanted, hasConsole, isOpened }
      const { json: isJson } = slipway.opts<{ json: boolean }>()
      await sandboxServerCommand({ ...server, config, isJson, signal })
    })
  slipway
    .command('demo-sandbox')
    .description('run a demo of sandboxes: start, agent run, pause, resume, removal')
    .option('--fast', 'do not pause between the steps', false)
    .action(async (options: { fast: boolean }) => {
      const { sandboxDemoCommand } = await import('@slipway/examples/demo-sandbox')
      await sandboxDemoCommand({ isFast: options.fast, env: config.env, signal })
    })
}

function addSandboxCommands(slipway: Command, run: RunWithClient): void {
  addSandboxList(slipway.command('sandboxes', { hidden: true }), run)
  const sandbox = slipway
    .command('sandbox')
    .description('list, show, start, pause, resume, restart, look into, archive and delete sandboxes')
  addSandboxList(sandbox.command('ls'), run)
  sandbox
    .command('start')
    .description('start a sandbox and wait until it runs')
    .option('--spec <id>', 'sandbox spec; the default one if omitted')
    .action((options: { spec?: string }) =>
      run(async (context) => (await sandboxCommands()).startSandboxCommand(context, options)),
    )
  sandbox
    .command('show')
    .description('show a sandbox; of one that does not run, why, and the next command')
    .argument('<id>', 'id of the sandbox')
    .action((id: string) => run(async (context) => (await sandboxCommands()).showSandboxCommand(context, id)))
  sandbox
    .command('stats')
    .description('show the processors and the memory that running sandboxes use')
    .action(() => run(async (context) => (await sandboxCommands()).sandboxUseCommand(context)))
  const verbs = [
    ['pause', 'pauseSandboxCommand', 'pause a sandbox'],
    ['resume', 'resumeSandboxCommand', 'resume a sandbox and wait until it runs'],
    [
      'archive',
      'archiveSandboxCommand',
      'delete the files of a sandbox and keep its row; its conversations continue in others',
    ],
    [
      'rm',
      'removeSandboxCommand',
      'delete a sandbox and its files, as an administrator also of another user; its history stays',
    ],
  ] as const
  addOperateCommands(sandbox, run)
  for (const [name, verb, description] of verbs) {
    sandbox
      .command(name)
      .description(description)
      .argument('<id>', 'id of the sandbox')
      .action((id: string) => run(async (context) => (await sandboxCommands())[verb](context, id)))
  }
}

/** Of own sandboxes, and with the scope operate of those of others. */
function addOperateCommands(sandbox: Command, run: RunWithClient): void {
  const id = ['<id>', 'id of the sandbox'] as const
  sandbox
    .command('logs')
    .description(
      'print what the agent server of a sandbox printed, also of one that was deleted some days ago',
    )
    .argument(...id)
    .option('--tail <lines>', 'only the last lines', integerFlag(1, 1_000_000))
    .action((box: string, options: { tail?: number }) =>
      run(async (context) => (await operateCommands()).sandboxLogsCommand(context, box, options)),
    )
  sandbox
    .command('events')
    .description('print what happened to a sandbox, and by whom')
    .argument(...id)
    .action((box: string) =>
      run(async (context) => (await operateCommands()).sandboxEventsCommand(context, box)),
    )
  sandbox
    .command('exec')
    .description('run a command in a sandbox by bash; its exit code becomes that of this command')
    .argument(...id)
    .argument('<command...>', 'the command; after -- where it has flags')
    .option('--cwd <folder>', 'folder in the sandbox')
    .option('--timeout <seconds>', 'end it after so long, exit code 124', integerFlag(1, 600), 60)
    .action((box: string, command: readonly string[], options: { cwd?: string; timeout: number }) =>
      run(async (context) => (await operateCommands()).execSandboxCommand(context, box, command, options)),
    )
  sandbox
    .command('restart')
    .description('end what runs in a sandbox, start it again on its files and wait until it runs')
    .argument(...id)
    .action((box: string) =>
      run(async (context) => (await operateCommands()).restartSandboxCommand(context, box)),
    )
}

const sandboxStates = ['running', 'starting', 'paused', 'error', 'missing']

interface SandboxListFlags {
  readonly limit: string
  readonly all: boolean
  readonly allUsers: boolean
  readonly user?: string
  readonly org?: string
  readonly status?: string
  readonly text?: string
  readonly sort?: 'created' | 'used' | 'cost'
}

function addSandboxList(list: Command, run: RunWithClient): void {
  list
    .description('list sandboxes, newest first')
    .option('--limit <number>', 'sandboxes a page, 1 to 100', pageSizeFlag, '20')
    .option('--all', 'print all pages', false)
    .option('--all-users', 'those of all users; administrators may', false)
    .option('--user <user>', 'those of this user, by id or name; administrators may')
    .option('--org <org>', 'those of this organisation, by id or name; its owners and admins may')
    .addOption(new Option('--status <status>', 'with --all-users: only in this state').choices(sandboxStates))
    .option('--text <text>', 'with --all-users: only with this in id, user, spec or detail')
    .addOption(
      new Option('--sort <order>', 'with --all-users: newest, last used or most expensive first').choices([
        'created',
        'used',
        'cost',
      ]),
    )
    .action(({ allUsers, sort = 'created', ...options }: SandboxListFlags) =>
      run(async (context) => {
        const { sandboxesCommand, sandboxesOfUsersCommand } = await sandboxCommands()
        const isOfAll =
          allUsers || ['user', 'org', 'status', 'text'].some((name) => name in options) || sort !== 'created'
        return isOfAll
          ? sandboxesOfUsersCommand(context, { ...options, sort })
          : sandboxesCommand(context, options)
      }),
    )
}

interface StartFlags {
  readonly repository?: string
  readonly branch?: string
  readonly sandbox?: string
  readonly spec?: string
  readonly model?: string
  readonly profile?: string
  readonly title?: string
  readonly conversation?: string
  readonly here: boolean
  readonly follow: boolean
}

function addAppCommands(slipway: Command, run: RunWithClient, config: Config): void {
  const app = slipway.command('app').description('conversations in sandboxes')
  app
    .command('start')
    .description('start a conversation in a sandbox')
    .argument('<message>', 'the message')
    .option('--repository <name>', 'repository to clone: owner/name, or a git URL')
    .option(
      '--here',
      'copy the git working tree of this folder, with uncommitted and without ignored files',
      false,
    )
    .option('--branch <name>', 'branch of the repository')
    .option('--sandbox <id>', 'use this sandbox; default: by your settings, usually a new one')
    .option('--spec <id>', 'sandbox spec')
    .option('--model <provider/name>', 'model; default: the one of your settings')
    .option('--profile <name>', 'saved model, of your own or shared by the organisation')
    .option('--title <title>', 'title of the conversation')
    .option('--conversation <id>', 'continue this one, whose sandbox is gone or archived, in another')
    .option('--follow', 'follow until nothing runs', false)
    .addHelpText('after', '\nExit codes: 0 done, 1 failed, 3 waits for confirmation.')
    .action(async (message: string, flags: StartFlags, command: Command) => {
      const { follow: isFollowing, here: isHere, ...others } = flags
      const request = startRequest(message, others)
      if (!isHere)
        return await run(async (context) =>
          (await startCommands()).startAppCommand(context, request, { isFollowing }),
        )
      const other = ['repository', 'branch', 'sandbox', 'conversation'].find((name) => name in others)
      if (other !== undefined) command.error(`--here and --${other} exclude each other.`)
      await run(async (context) =>
        (await hereCommands()).startHereCommand(context, request, { ...here(config), isFollowing }),
      )
    })
  app
    .command('ls')
    .alias('list')
    .description('list conversations, newest first')
    .option('--limit <number>', 'conversations a page, 1 to 100', pageSizeFlag, '20')
    .option('--all', 'print all pages', false)
    .action((options: { limit: string; all: boolean }) =>
      run(async (context) => (await appCommands()).listAppsCommand(context, options)),
    )
  app
    .command('tail')
    .description('follow the events of a conversation; its sandbox need not run')
    .argument('<id>', 'id of the conversation')
    .option('--until-idle', 'exit when nothing runs, or its sandbox does not', false)
    .action((id: string, options: { untilIdle: boolean }) =>
      run(async (context) => (await appCommands()).tailAppCommand(context, id, options)),
    )
  addAppChangeCommands(app, run)
  addAppWorkCommands(app, run, config)
}

function here({ env }: Config) {
  return { directory: process.cwd(), env }
}

/** The work of conversations that were started with `--here`. */
function addAppWorkCommands(app: Command, run: RunWithClient, config: Config): void {
  app
    .command('diff')
    .description('print what a conversation changed in its copy of your folder, as a patch')
    .argument('<id>', 'id of the conversation, its first characters, or --last')
    .option('--stat', 'only the files: added lines, removed lines, path', false)
    .action((id: string, { stat: isStat }: { stat: boolean }) =>
      run(async (context) => (await hereCommands()).diffAppCommand(context, id, { ...here(config), isStat })),
    )
  app
    .command('apply')
    .description('bring what a conversation changed into your working tree, all of it or nothing')
    .argument('<id>', 'id of the conversation, its first characters, or --last')
    .option('--branch <name>', 'commit it to a new branch instead; your working tree does not change')
    .action((id: string, { branch }: { branch?: string }) =>
      run(async (context) =>
        (await hereCommands()).applyAppCommand(context, id, { ...here(config), branch }),
      ),
    )
}

function addAppChangeCommands(app: Command, run: RunWithClient): void {
  app
    .command('send')
    .description('send a message to a conversation whose sandbox runs')
    .argument('<id>', 'id of the conversation')
    .argument('<message>', 'the message')
    .option('--follow', 'follow until nothing runs', false)
    .action((id: string, message: string, { follow: isFollowing }: { follow: boolean }) =>
      run(async (context) => (await startCommands()).sendAppCommand(context, id, { message, isFollowing })),
    )
  app
    .command('fork')
    .description(
      'copy a conversation and the files of its workspace into a new sandbox; the first one continues',
    )
    .argument('<id>', 'id of the conversation, whose sandbox runs')
    .option('--title <title>', 'title of the copy; default: that of the conversation')
    .action((id: string, options: { title?: string }) =>
      run(async (context) => (await startCommands()).forkAppCommand(context, id, options)),
    )
  app
    .command('download')
    .description('write a conversation as a zip file; its sandbox need not run')
    .argument('<id>', 'id of the conversation')
    .option('--output <file>', 'output file; default: conversation_ID.zip')
    .action((id: string, options: { output?: string }) =>
      run(async (context) => (await appCommands()).downloadAppCommand(context, id, options)),
    )
  app
    .command('rm')
    .description('delete a conversation, its history, and its sandbox unless others use it')
    .argument('<id>', 'id of the conversation')
    .action((id: string) => run(async (context) => (await appCommands()).removeAppCommand(context, id)))
}

function startRequest(message: string, flags: Omit<StartFlags, 'follow' | 'here'>) {
  const { repository, branch, sandbox, spec, model, profile, title, conversation, ...unread } = flags
  // A flag that is not read is an error of types.
  unread satisfies { readonly [name in keyof typeof unread]: never }
  return {
    initial_message: { content: message },
    selected_repository: repository,
    selected_branch: branch,
    sandbox_id: sandbox,
    sandbox_spec_id: spec,
    llm_model: model,
    llm_profile: profile,
    title,
    conversation_id: conversation,
  }
}
