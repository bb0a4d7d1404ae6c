import type { KeyScope } from '@slipway/protocol'
import { type Command, Option } from 'commander'
import type { LimitFlags } from '../commands/sandboxes/accounts.ts'
import type { UsageFlags } from '../commands/sandboxes/operate.ts'
import type { SandboxServerContext } from '../context/command-context.ts'
import { ageFlag, limitFlag, scopesFlag, timeFlag } from './flags.ts'
import type { ConversationDeps } from './server-selection.ts'

type RunWithClient = (work: (context: SandboxServerContext) => Promise<unknown>) => Promise<void>
/** Runs a command of an agent server. */
export type RunOnAgentServer = (work: (deps: ConversationDeps) => Promise<unknown>) => Promise<void>

const load = () => import('../commands/sandboxes/accounts.ts')
const loadScoped = () => import('../commands/settings/keys.ts')
const agentText = 'a key with scopes of an agent server'
const perDay = limitFlag(1_000_000)
const amount = limitFlag(1_000_000_000)
const ofUserText = 'of this user, by id or name; administrators may'
const limitText = 'a number, unlimited (or -1), or default: the one of the server'

/** Adds the options of limits to a command. */
function limitOptions(command: Command): Command {
  return command
    .option('--per-day <number>', `conversations a day: ${limitText}`, perDay)
    .option('--conversations <number>', 'conversations that are stored', amount)
    .option('--stored-mb <number>', 'megabytes of events that are stored', amount)
    .option('--sandboxes <number>', 'sandboxes that run at a time', amount)
}

/** Users, keys and quotas of a sandbox server. */
export function addAccountCommands(slipway: Command, run: RunWithClient, runOnAgent: RunOnAgentServer): void {
  const users = slipway.command('users').description('list, add and remove users of a sandbox server')
  users
    .command('ls', { isDefault: true })
    .description('list the users')
    .action(() => run(async (context) => (await load()).listUsersCommand(context)))
  const add = users
    .command('add')
    .description('add a user, and print a key of the user once')
    .argument('<name>', 'name of the user')
    .option('--email <address>', 'mail address')
    .option('--org <org>', 'organisation in which the user works, by id or name')
    .option('--admin', 'make an administrator', false)
  limitOptions(add).action(
    (name: string, flags: { email?: string; org?: string; admin: boolean } & LimitFlags) =>
      run(async (context) => (await load()).addUserCommand(context, name, flags)),
  )
  users
    .command('set')
    .description('change a user; what is not named stays')
    .argument('<user>', 'id or name of the user')
    .option('--name <name>', 'another name')
    .option('--email <address>', 'mail address')
    .option('--org <org>', 'organisation in which the user works from now on, by id or name; or none')
    .action((user: string, flags: { name?: string; email?: string; org?: string }) =>
      run(async (context) => (await load()).setUserCommand(context, user, flags)),
    )
  users
    .command('rm')
    .description('revoke the keys of a user at once, and remove the user')
    .argument('<user>', 'id or name of the user')
    .option('--with-sandboxes', 'delete the sandboxes and conversations of the user too', false)
    .action((id: string, flags: { withSandboxes: boolean }) =>
      run(async (context) => (await load()).removeUserCommand(context, id, flags)),
    )
  slipway
    .command('usage')
    .description('print tokens, cost, conversations and hours of sandboxes of all users; administrators may')
    .addOption(
      new Option('--by <what>', 'one line for each')
        .choices(['user', 'organization', 'model', 'day'])
        .default('user'),
    )
    .option('--from <day>', 'first day (UTC), as 2026-01-31; default: that of this month')
    .option('--to <day>', 'last day, included; default: today')
    .option('--org <org>', 'of this organisation, by id or name; its owners and admins may')
    .option('--csv', 'as CSV', false)
    .action((flags: UsageFlags) =>
      run(async (context) => (await import('../commands/sandboxes/operate.ts')).usageCommand(context, flags)),
    )
  users
    .command('erase')
    .description(
      'delete all data of a user, and print a certificate; after it is complete, repeat it with the id or the pseudonym',
    )
    .argument('<user>', 'id or name of the user, or the pseudonym of one who was erased')
    .option('-y, --yes', 'do not ask in a terminal', false)
    .action((id: string, flags: { yes: boolean }) =>
      run(async (context) => (await load()).eraseUserCommand(context, id, flags)),
    )
  addKeyCommands(slipway, run, runOnAgent)
  const quotas = slipway.command('quotas').description('show and set limits of a sandbox server')
  quotas
    .command('show', { isDefault: true })
    .description('show your limits and what you have used, or those of a user')
    .argument('[user]', 'id or name of a user; administrators may')
    .action((user: string | undefined) => run(async (context) => (await load()).quotaCommand(context, user)))
  const set = quotas
    .command('set')
    .description('set limits of a user; those that are not named stay')
    .argument('<user>', 'id or name of the user')
  limitOptions(set).action((id: string, flags: LimitFlags) =>
    run(async (context) => (await load()).setQuotaCommand(context, id, flags)),
  )
}

interface AddKeyFlags {
  readonly readOnly: boolean
  readonly expires?: string
  readonly user?: string
  readonly org?: string
  readonly scope?: readonly KeyScope[]
  readonly conversation?: string
}

function addKeyCommands(slipway: Command, run: RunWithClient, runOnAgent: RunOnAgentServer): void {
  const keys = slipway
    .command('keys')
    .description('list, add, replace and revoke API keys of a sandbox server, or of an agent server')
  keys
    .command('ls', { isDefault: true })
    .description('list your keys, when each was used, and when it ends')
    .option('--user <user>', ofUserText)
    .option('--agent', 'the keys with scopes of an agent server', false)
    .action((flags: { user?: string; agent: boolean }) =>
      flags.agent
        ? runOnAgent(async ({ context }) => (await loadScoped()).listScopedKeysCommand(context()))
        : run(async (context) => (await load()).listKeysCommand(context, flags)),
    )
  keys
    .command('add')
    .description('make a key, and print it once')
    .argument('<name>', 'what it is for')
    .option('--read-only', 'a key that only reads', false)
    .option('--expires <time>', 'when it ends, as a date or a time', timeFlag)
    .option('--user <user>', ofUserText)
    .option('--org <org>', 'bind it to this organisation, by id or name')
    .option('--scope <scopes>', `${agentText}: read, act and answer, separated by commas`, scopesFlag)
    .option('--conversation <id>', `${agentText}: bind it to this conversation`)
    .action(async (name: string, flags: AddKeyFlags, command: Command) => {
      const { scope: scopes = ['read'], conversation, expires } = flags
      if (flags.scope === undefined && conversation === undefined)
        return await run(async (context) => (await load()).addKeyCommand(context, name, flags))
      if (flags.readOnly || flags.user !== undefined || flags.org !== undefined)
        command.error('--read-only, --user and --org are for keys of a sandbox server.')
      await runOnAgent(async ({ context, find }) => {
        const id = conversation === undefined ? undefined : (await find(conversation)).id
        await (await loadScoped()).addScopedKeyCommand(context(), name, { scopes, conversation: id, expires })
      })
    })
  keys
    .command('rm')
    .description('revoke a key')
    .argument('<key>', 'id of the key')
    .option('--user <user>', ofUserText)
    .option('--agent', agentText, false)
    .action((id: string, flags: { user?: string; agent: boolean }) =>
      flags.agent
        ? runOnAgent(async ({ context }) => (await loadScoped()).removeScopedKeyCommand(context(), id))
        : run(async (context) => (await load()).removeKeyCommand(context, id, flags)),
    )
  keys
    .command('rotate')
    .description('make a key with the same rights, and end the old one and all that was made with it')
    .argument('<key>', 'id of the key')
    .option(
      '--grace <age>',
      'how long the old one stays valid, such as 1h; it ends at once unless given',
      ageFlag,
    )
    .option('--user <user>', ofUserText)
    .action((id: string, flags: { grace?: number; user?: string }) =>
      run(async (context) => (await load()).rotateKeyCommand(context, id, flags)),
    )
}
