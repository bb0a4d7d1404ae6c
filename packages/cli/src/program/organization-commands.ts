import { Argument, type Command, Option } from 'commander'
import type { OrgRole } from '../commands/sandboxes/organizations.ts'
import type { ShareModelFlags } from '../commands/sandboxes/sharing.ts'
import type { SandboxServerContext } from '../context/command-context.ts'
import type { Config } from '../context/config.ts'
import type { Limit } from '../parsing/limit.ts'
import { limitFlag, listFlag } from './flags.ts'

type RunWithClient = (work: (context: SandboxServerContext) => Promise<unknown>) => Promise<void>

const load = () => import('../commands/sandboxes/organizations.ts')
const perDay = limitFlag(1_000_000)
const perDayText = 'conversations a day of a member: a number, unlimited (or -1), or default'
const orgText = 'id or name of the organisation'
const userText = 'id of the user; the name where you may list users, or of a member'

interface ShareMcpFlags {
  readonly address?: string
  readonly env?: readonly string[]
  readonly tokenEnv?: string
}

interface SetFlags {
  readonly name?: string
  readonly perDay?: Limit
  readonly models?: readonly string[]
  readonly specs?: readonly string[]
}

/** None: all. */
const allowed = (text: string) => (text === 'all' ? [] : text.split(',').map((name) => name.trim()))

/** Organisations of a sandbox server and their members. */
export function addOrganizationCommands(slipway: Command, run: RunWithClient, { env }: Config): void {
  const orgs = slipway.command('orgs').description('list, add and change organisations of a sandbox server')
  orgs
    .command('ls', { isDefault: true })
    .description('list the organisations')
    .action(() => run(async (context) => (await load()).listOrgsCommand(context)))
  orgs
    .command('add')
    .description('add an organisation, and print its id')
    .argument('<name>', 'name of the organisation')
    .option('--per-day <number>', perDayText, perDay)
    .action((name: string, flags: { perDay?: Limit }) =>
      run(async (context) => (await load()).addOrgCommand(context, name, flags)),
    )
  orgs
    .command('show')
    .description('show an organisation, and how much belongs to it')
    .argument('<org>', orgText)
    .action((org: string) => run(async (context) => (await load()).showOrgCommand(context, org)))
  orgs
    .command('set')
    .description('change an organisation; what is not named stays')
    .argument('<org>', orgText)
    .option('--name <name>', 'another name')
    .option('--per-day <number>', perDayText, perDay)
    .option(
      '--models <names>',
      'models that work in it may use: names with commas, * for any text, or all',
      allowed,
    )
    .option('--specs <ids>', 'sandbox specs that work in it may use: ids with commas, or all', allowed)
    .action((org: string, flags: SetFlags) =>
      run(async (context) => (await load()).setOrgCommand(context, org, flags)),
    )
  orgs
    .command('rm')
    .description(
      'remove an organisation, its memberships and the keys bound to it; refused while it has work',
    )
    .argument('<org>', orgText)
    .action((org: string) => run(async (context) => (await load()).removeOrgCommand(context, org)))
  orgs
    .command('members')
    .description('list the members of an organisation')
    .argument('<org>', orgText)
    .action((org: string) => run(async (context) => (await load()).listMembersCommand(context, org)))
  orgs
    .command('add-member')
    .description('make a user a member, or change the role of a member; owners and admins of it may')
    .argument('<org>', orgText)
    .argument('<user>', userText)
    .addOption(new Option('--role <role>', 'what the member may do').choices(['owner', 'admin', 'member']))
    .action((org: string, user: string, flags: { role?: OrgRole }) =>
      run(async (context) => (await load()).addMemberCommand(context, org, user, flags)),
    )
  orgs
    .command('rm-member')
    .description('take a user out of an organisation, with the keys that are bound to it')
    .argument('<org>', orgText)
    .argument('<user>', userText)
    .action((org: string, user: string) =>
      run(async (context) => (await load()).removeMemberCommand(context, org, user)),
    )
  addSharingCommands(orgs, run, env)
}

/** What an organisation shares with its members. */
function addSharingCommands(orgs: Command, run: RunWithClient, env: Config['env']): void {
  const loadSharing = () => import('../commands/sandboxes/sharing.ts')
  orgs
    .command('shared')
    .description('list the models and MCP servers that an organisation shares with its members')
    .argument('<org>', orgText)
    .action((org: string) => run(async (context) => (await loadSharing()).listSharedCommand(context, org)))
  orgs
    .command('share-model')
    .description('share a model with the members under a name; owners and admins of it may')
    .argument('<org>', orgText)
    .argument('<name>', 'name of the profile, which a member names as one of the own')
    .requiredOption('--model <model>', 'such as anthropic/claude-sonnet-4-5')
    .option('--base-url <url>', 'address of its server')
    .option('--key-env <name>', 'variable of your environment with the key')
    .option('--default', 'it is the model of members who have set none', false)
    .action((org: string, name: string, flags: ShareModelFlags) =>
      run(async (context) => (await loadSharing()).shareModelCommand(context, org, name, { ...flags, env })),
    )
  orgs
    .command('share-mcp')
    .description('share an MCP server with the members: slipway orgs share-mcp ORG NAME -- COMMAND ARGUMENTS')
    .argument('<org>', orgText)
    .argument('<name>', 'name of the MCP server')
    .argument('[command...]', 'program and arguments in the sandbox, after --')
    .option('--address <url>', 'address of an MCP server that runs elsewhere, instead of a program')
    .option('--env <name>', 'give it this variable of your environment, or NAME=VALUE; repeatable', listFlag)
    .option('--token-env <name>', 'variable of your environment with the bearer token for --address')
    .action((org: string, name: string, program: string[], flags: ShareMcpFlags, command: Command) => {
      if ((flags.address !== undefined) === program.length > 0)
        command.error('Name a command after --, or an address with --address.')
      const server = { command: program, url: flags.address, variables: flags.env ?? [], env }
      return run(async (context) =>
        (await loadSharing()).shareMcpCommand(context, org, name, {
          ...server,
          tokenVariable: flags.tokenEnv,
        }),
      )
    })
  orgs
    .command('unshare')
    .description('share a model or an MCP server no longer')
    .argument('<org>', orgText)
    .addArgument(new Argument('<kind>', 'what it is').choices(['model', 'mcp']))
    .argument('<name>', 'its name')
    .action((org: string, kind: 'model' | 'mcp', name: string) =>
      run(async (context) => (await loadSharing()).unshareCommand(context, org, kind, name)),
    )
}
