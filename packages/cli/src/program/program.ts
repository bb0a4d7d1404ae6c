import { type ExportFormatName, exportFormats, Problem } from '@slipway/protocol/client'
import { definedMembers } from '@slipway/shared/json'
import { abortAtStopSignals, userDataDirectory } from '@slipway/shared/process'
import { Argument, Command, CommanderError, Option } from 'commander'
import ownPackage from '../../package.json' with { type: 'json' }
import { assertSettingsKnown } from '../context/check-settings.ts'
import { type Config, readConfig, readEnvironment } from '../context/config.ts'
import { configPath, noConfigFile, readConfigFile } from '../context/config-file.ts'
import { findData } from '../context/data-directory.ts'
import { replaceLastFlag } from '../conversation/source/find-id.ts'
import { print, printNote, printResult } from '../output/terminal.ts'
import { addApplicationCommands } from './application-commands.ts'
import { addComponentCommands } from './component-commands.ts'
import { addConfigCommands, assertConfigFile } from './config-commands.ts'
import { addContextCommands, addConversationCommands, idText } from './conversation-commands.ts'
import { errorMessage } from './error-message.ts'
import { cursorFlag, integerFlag, pageSizeFlag, tagFlag, timeFlag } from './flags.ts'
import { addMaintenanceCommands, addPruneCommand } from './maintenance-commands.ts'
import { addMcpCommands } from './mcp-commands.ts'
import { addRunCommand, addRunControlCommands, addTrustCommand } from './run-commands.ts'
import { addSandboxServerCommands } from './sandbox-commands.ts'
import { addSecretCommands } from './secret-commands.ts'
import { type ConversationDeps, ServerSelection } from './server-selection.ts'
import { addSessionCommands, withSessionCommand } from './session-commands.ts'

/** Commands that a new user may begin with: they start the private server where there is no other. */
const startingCommands = ['run', 'import', 'mcp', 'secrets', 'trust']

/** What commands for conversations use where nothing names a server or a directory. */
const usualServer = 'the server of this directory, else your private one'

/** For commands that end what they started when no one reads their output any more. */
const cleanupMs = 60_000

/**
 * Runs the command line; returns the exit code: 0 done, 1 failed, 2 wrong usage, 3 waits for an answer, 4
 * unchanged but of an unknown signer.
 */
export async function runCli(args: readonly string[]): Promise<number> {
  const abort = abortAtStopSignals()
  const outcome = { code: 0 }
  let server: Pick<ServerSelection, 'kind' | 'keySource' | 'notFoundHint'> | undefined
  // The reader of the output may exit early, as `head` does, and a terminal may be closed: what was started
  // is ended, as at Ctrl-C.
  let isReaderGone = false
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE' && error.code !== 'EIO') process.exit(1)
    if (isReaderGone) return
    isReaderGone = true
    abort.abort()
    setTimeout(() => process.exit(0), cleanupMs).unref()
  })
  try {
    const env = readEnvironment()
    const path = configPath(env)
    const file = ignoresConfigFile(args) ? noConfigFile(path) : await readConfigFile(path)
    const { slipway, selection, deps } = buildProgram(readConfig(env, file), outcome, abort.signal)
    if (args[0] === '__complete') {
      const { completeWords } = await import('./completion.ts')
      await print(await completeWords(slipway, args.slice(1), deps))
      return 0
    }
    const names = slipway.commands.map((command) => command.name())
    try {
      await slipway.parseAsync(withSessionCommand(replaceLastFlag(args), names), { from: 'user' })
    } finally {
      server = selection
      await selection.close()
    }
    return isReaderGone ? 0 : outcome.code
  } catch (error) {
    if (isReaderGone) return 0
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    printNote(
      `slipway: ${abort.signal.aborted && !(error instanceof Problem) ? 'Stopped.' : errorMessage(error, server, readEnvironment())}`,
    )
    return 1
  }
}

function ignoresConfigFile(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  return args.slice(0, end === -1 ? args.length : end).includes('--no-config')
}

/** The command line, and what its commands need. */
export function buildProgram(config: Config, outcome: { code: number }, signal: AbortSignal) {
  const slipway = createRootCommand(config)
  const selection = new ServerSelection(slipway, config, signal)
  const deps = selection.deps(outcome)
  const { context } = deps
  slipway
    .command('version')
    .description('print the version')
    .action(async () => {
      const { version } = ownPackage
      await printResult(slipway.opts<{ json: boolean }>().json, { version, node: process.version }, version)
    })
  slipway
    .command('completion')
    .description('print the completion of a shell: source <(slipway completion bash)')
    .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh', 'fish']))
    .action(async (shell: string) => {
      const { completionScripts } = await import('./completion.ts')
      await print(completionScripts[shell] ?? '')
    })
  addServerCommands(slipway, config, signal)
  addSessionCommands(slipway, { ...deps, config, selection })
  addConfigCommands(slipway, { config, outcome, signal })
  addContextCommands(slipway, { config, signal })
  addComponentCommands(slipway)
  addVerifyCommand(slipway, outcome)
  addSandboxServerCommands(slipway, { config, outcome, selection, signal })
  addMaintenanceCommands(slipway, { config, outcome, selection, deps })
  const otherCommands = slipway.commands.length
  addRunCommand(slipway, config, deps)
  addConversationCommands(slipway, deps)
  addRunControlCommands(slipway, deps)
  addTrustCommand(slipway, deps)
  addMcpCommands(slipway, config, deps)
  addSecretCommands(slipway, deps)
  addApplicationCommands(slipway, deps)
  addLogCommands(slipway, deps)
  addReadCommands(slipway, deps)
  addPruneCommand(slipway, context)
  addOpenCommand(slipway.command('open'), selection)
  addOpenCommand(slipway.command('open-sandboxes', { hidden: true }), selection)
  for (const command of slipway.commands.slice(otherCommands)) {
    command
      .option(
        '--data <directory>',
        `data directory of a server on this machine, for its session key; default: that of ${usualServer}`,
        config.dataDirectory,
      )
      .hook('preAction', async () => {
        const { data } = command.opts<{ data?: string }>()
        // A console outlives the command: it needs a server that does too.
        if (command.name() === 'open') return await selection.selectRunning(data)
        if (command.name() === 'open-sandboxes') return void (await selection.select(data, ['sandbox']))
        const start = startingCommands.includes(command.name()) ? 'ifNeeded' : 'withConversations'
        await selection.select(data, ['agent', 'sandbox'], start)
      })
  }
  return { slipway, selection, deps: { ...deps, config, selection } }
}

/** `slipway` with its own options; nothing but `doctor` runs with settings that are not known. */
function createRootCommand(config: Config): Command {
  const slipway = new Command('slipway')
    .description('The agent server whose log you can trust.')
    .version(ownPackage.version, '-v, --version')
    .addOption(
      new Option(
        '--url <address>',
        'address of the server (or SLIPWAY_URL; SLIPWAY_SANDBOX_URL for the sandbox server)',
      ).default(config.url, config.own.url === undefined ? usualServer : undefined),
    )
    .option('--context <name>', 'use this context (or SLIPWAY_CONTEXT); see "slipway context"')
    .option('--no-config', 'do not read config.toml; see "slipway config"')
    .option('--json', 'print JSON, one value a line', false)
    .addOption(
      new Option(
        '-o, --output-format <format>',
        'text, json as --json, or wide: whole ids and times',
      ).choices(['text', 'json', 'wide']),
    )
    .hook('preAction', () => {
      if (slipway.opts<{ outputFormat?: string }>().outputFormat === 'json')
        slipway.setOptionValue('json', true)
    })
    .configureHelp({ showGlobalOptions: true })
    .addHelpText(
      'after',
      '\nSettings are read from flags, the environment and config.toml, in this order; see "slipway config".\n' +
        'Keys are read from the environment: SLIPWAY_SESSION_API_KEY of the agent server (else from its data directory,\n' +
        'SLIPWAY_DATA_DIRECTORY), SLIPWAY_API_KEY of the sandbox server, LLM_API_KEY of a model.',
    )
    .exitOverride()
    .showHelpAfterError('Run with --help for usage.')
    .hook('preAction', async (_, command) => {
      // `doctor` reports them with everything else.
      if (command.name() === 'doctor') return
      assertConfigFile(command, config.file)
      await assertSettingsKnown(config.env, printNote)
    })
  return slipway
}

function addServerCommands(slipway: Command, config: Config, signal: AbortSignal): void {
  slipway
    .command('serve')
    .description('start the agent server')
    .option('--host <host>', 'address to listen on', '127.0.0.1')
    .option('--port <port>', 'port to listen on; 0 is any free one', integerFlag(0, 65_535), 8000)
    .option('--socket <path>', 'listen on a Unix socket instead')
    .option(
      '--data <directory>',
      'data directory of the logs (or SLIPWAY_DATA_DIRECTORY); default: see "slipway data"',
      config.dataDirectory,
    )
    .option('--web <directory>', 'serve an unpacked web client (or SLIPWAY_WEB)')
    .option('--database <url>', 'store conversations in PostgreSQL (or SLIPWAY_DATABASE_URL)')
    .option('--no-key', 'require no session key: every user and program of this machine may use the server')
    .option('--no-console', 'serve no console (or SLIPWAY_CONSOLE=false)')
    .option('--open', 'open the console in a browser', false)
    .addOption(new Option('--until-unused', 'end when no session uses it').hideHelp())
    .action(async ({ key, console: hasConsole, open: isOpened, ...options }: ServeFlags) => {
      const { serveCommand } = await import('../commands/server/serve.ts')
      const { json } = slipway.opts<{ json: boolean }>()
      const server = { ...options, noKey: !key, hasConsole, isOpened }
      await serveCommand({ ...server, config, isJson: json, signal })
    })
  slipway
    .command('accept-log')
    .description(
      'continue with the log that a data directory has now, such as an older copy, as a new history',
    )
    .option(
      '--data <directory>',
      'data directory of the logs (or SLIPWAY_DATA_DIRECTORY); default: see "slipway data"',
      config.dataDirectory,
    )
    .option('--empty', 'there is no log any more: start an empty one', false)
    .action(async ({ data, empty }: { data?: string; empty: boolean }) => {
      const { acceptLogCommand } = await import('../commands/server/accept-log.ts')
      const { json: isJson } = slipway.opts<{ json: boolean }>()
      await acceptLogCommand({ data: await findData(data, config.env), empty, isJson })
    })
  slipway
    .command('demo')
    .description('run a demo: a server, an agent run, searches, an export')
    .option('--fast', 'do not pause between the steps', false)
    .option('--ask', 'ask for confirmation of actions', false)
    .option('--keep', 'leave the server running at the end, with the console open', false)
    .action(async (options: { fast: boolean; ask: boolean; keep: boolean }) => {
      const { demoCommand } = await import('@slipway/examples/demo')
      await demoCommand({ isFast: options.fast, isAsking: options.ask, isKept: options.keep, config, signal })
    })
}

function addOpenCommand(open: Command, selection: ServerSelection): void {
  open
    .description('open the console of a running agent server or sandbox server; the link signs in once')
    .option('--no-browser', 'only print the link')
    .action(async ({ browser, data }: { browser: boolean; data?: string }) => {
      const ofUser = userDataDirectory(readEnvironment())
      if (selection.isPrivate) {
        const next = 'slipway stop, then slipway serve --open --data'
        throw new Problem('bad_request', `The private server has no console. Use: ${next} ${ofUser}`)
      }
      const { openCommand } = await import('../console/open-command.ts')
      await openCommand(selection.consoleServer(), { data: data ?? ofUser, isOpened: browser })
    })
}

interface ServeFlags {
  readonly host: string
  readonly port: number
  readonly socket?: string
  readonly data?: string
  readonly web?: string
  readonly database?: string
  readonly key: boolean
  readonly console: boolean
  readonly open: boolean
  readonly untilUnused?: true
}

interface ImportOptions {
  readonly id?: string
  readonly title?: string
  readonly tag?: Record<string, string>
  readonly keepUnknown: boolean
}

function addLogCommands(slipway: Command, { context, find }: ConversationDeps): void {
  slipway
    .command('import')
    .description(
      'import a log: one event a line, plain or gzip; or the folder or archive of an OpenHands conversation',
    )
    .argument('<file>', 'the file or folder, or - for standard input')
    .option('--id <uuid>', 'id of the conversation')
    .option('--title <title>', 'title of the conversation')
    .option('--tag <key=value>', 'tag of the conversation; may be repeated', tagFlag)
    .option('--keep-unknown', 'also accept kinds and members of other versions', false)
    .action(async (file: string, { id, title, tag, keepUnknown }: ImportOptions) => {
      const { importCommand } = await import('../commands/conversations/import.ts')
      const meta = definedMembers({ conversation_id: id, title, tags: tag })
      await importCommand(context(), file, { meta, keepUnknown })
    })
  slipway
    .command('export')
    .description('export a conversation: its log, one event a line, or another format')
    .argument('<id>', idText)
    .option('--output <file>', 'write to a file, atomically')
    .addOption(
      new Option('--format <format>', 'the form of the file')
        .choices(exportFormats.map(({ name }) => name))
        .default('jsonl'),
    )
    .option('--verifiable', 'the same as --format verifiable', false)
    .option('--meta', 'begin with a line of id, title and tags; of jsonl alone', false)
    .option('--gzip', 'write a gzip file', false)
    .action(async (text: string, { verifiable, ...flags }: ExportOptions, command: Command) => {
      const { exportCommand } = await import('../commands/conversations/export.ts')
      if (verifiable && !['jsonl', 'verifiable'].includes(flags.format))
        command.error('--verifiable and --format name two formats.')
      const format = verifiable ? ('verifiable' as const) : flags.format
      const found = await find(text)
      await exportCommand(found.context, found.id, { ...flags, format })
    })
}

interface ExportOptions {
  readonly output?: string
  readonly format: ExportFormatName
  readonly verifiable: boolean
  readonly meta: boolean
  readonly gzip: boolean
}

function addVerifyCommand(slipway: Command, outcome: { code: number }): void {
  slipway
    .command('verify')
    .description('check a verifiable export offline: exit code 0, or 4 where nothing names its signer')
    .argument('<file>', 'the file, or - for standard input; plain or gzip')
    .option(
      '--key <public>',
      'export_public_key of /server_info of the server that made it, from a source that you trust',
    )
    .action(async (file: string, { key }: { key?: string }) => {
      const { verifyCommand } = await import('../commands/conversations/verify.ts')
      const { json: isJson } = slipway.opts<{ json: boolean }>()
      await verifyCommand({ isJson, outcome }, file, key)
    })
}

interface SearchOptions {
  readonly kind?: string
  readonly source?: string
  readonly body?: string
  readonly since?: string
  readonly until?: string
  readonly limit?: string
  readonly pageId?: string
  readonly desc: boolean
  readonly all: boolean
  readonly count: boolean
}

interface GrepOptions {
  readonly status?: string
  readonly tag?: Record<string, string>
  readonly limit: number
  readonly output: boolean
  readonly failed: boolean
  readonly since?: string
  readonly until?: string
}

function addReadCommands(slipway: Command, deps: ConversationDeps): void {
  addSearchCommand(slipway, deps)
  addGrepCommand(slipway, deps)
  addTailCommand(slipway, deps)
}

function addSearchCommand(slipway: Command, { find }: ConversationDeps): void {
  slipway
    .command('search')
    .description('find events of a conversation')
    .argument('<id>', idText)
    .option('--kind <kind>', 'only this kind, for example ActionEvent')
    .option('--source <source>', 'only this source: agent, user or environment')
    .option('--body <text>', 'only messages that contain this text, in any case')
    .option(
      '--since <time>',
      'only events at or after this moment: 2h, yesterday, a date or a time',
      timeFlag,
    )
    .option('--until <time>', 'only events before this moment', timeFlag)
    .option('--limit <number>', 'events a page, 1 to 100', pageSizeFlag)
    .option('--desc', 'newest first', false)
    .option('--page-id <id>', 'start at this page')
    .option('--all', 'print all pages', false)
    .option('--count', 'only count what matches', false)
    .action(async (text: string, { since, until, pageId, desc, all, count, ...filter }: SearchOptions) => {
      const { searchCommand } = await import('../commands/conversations/search.ts')
      const query = {
        ...filter,
        timestamp__gte: since,
        timestamp__lt: until,
        page_id: pageId,
        sort_order: desc ? ('TIMESTAMP_DESC' as const) : undefined,
      }
      const found = await find(text)
      await searchCommand(found.context, found.id, query, { all, count })
    })
}

function addGrepCommand(slipway: Command, { context, source }: ConversationDeps): void {
  slipway
    .command('grep')
    .description('find a text in the messages of all conversations, or commands that failed')
    .argument('[text]', 'the text, in any case; optional with --failed')
    .option('--status <status>', 'only conversations with this status, for example idle')
    .option('--tag <key=value>', 'only conversations with this tag; may be repeated', tagFlag)
    .option('--output', 'search commands and what they printed instead; reads the logs', false)
    .option('--failed', 'find commands that failed', false)
    .option('--since <time>', 'only messages, or results, at or after this moment', timeFlag)
    .option('--until <time>', 'only messages, or results, before this moment', timeFlag)
    .option('--limit <number>', 'most conversations, or results', integerFlag(1, 100_000), 20)
    .action(async (body: string | undefined, flags: GrepOptions, command: Command) => {
      const { limit, tag = {}, output, failed: isFailed, since, until, ...query } = flags
      if (output || isFailed) {
        if (Object.keys(tag).length > 0) command.error('--tag is for messages.')
        if (body === undefined && !isFailed) command.error('--output needs a text.')
        const { searchOutputsCommand } = await import('../commands/conversations/search-outputs.ts')
        const results = { ...query, text: body, isFailed, since, until, limit }
        return await searchOutputsCommand(source(), results)
      }
      if (body === undefined) return command.error('Name a text, or --failed.')
      const { searchTextsCommand } = await import('../commands/conversations/search.ts')
      const tags = Object.entries(tag).map(([name, value]) => `${name}:${value}`)
      const times = { timestamp__gte: since, timestamp__lt: until }
      await searchTextsCommand(
        context(),
        { ...query, ...times, body, tag: tags },
        { limit, isWide: source().isWide },
      )
    })
}

function addTailCommand(slipway: Command, { find }: ConversationDeps): void {
  slipway
    .command('tail')
    .description('follow the events of a conversation')
    .argument('<id>', idText)
    .option('--after <cursor>', 'start after this position or cursor', cursorFlag, '0')
    .option('--until-idle', 'exit when all events are read and nothing runs', false)
    .action(async (text: string, options: { after: string; untilIdle: boolean }) => {
      const { tailCommand } = await import('../commands/conversations/tail.ts')
      const found = await find(text)
      await tailCommand(found.context, found.id, options)
    })
}
