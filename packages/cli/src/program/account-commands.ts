import type { Command } from 'commander'
import type { LimitFlags } from '../commands/sandboxes/accounts.ts'
import type { SandboxServerContext } from '../context/command-context.ts'
import { limitFlag, timeFlag } from './flags.ts'

type RunWithClient = (work: (context: SandboxServerContext) => Promise<unknown>) => Promise<void>

const load = () => import('../commands/sandboxes/accounts.ts')
const perDay = limitFlag(1_000_000)
const amount = limitFlag(1_000_000_000)
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
export function addAccountCommands(slipway: Command, run: RunWithClient): void {
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
    .option('--admin', 'make an administrator', false)
  limitOptions(add).action((name: string, flags: { email?: string; admin: boolean } & LimitFlags) =>
    run(async (context) => (await load()).addUserCommand(context, name, flags)),
  )
  users
    .command('rm')
    .description('revoke the keys of a user at once, and remove the user')
    .argument('<user>', 'id or name of the user')
    .option('--with-sandboxes', 'delete the sandboxes and conversations of the user too', false)
    .action((id: string, flags: { withSandboxes: boolean }) =>
      run(async (context) => (await load()).removeUserCommand(context, id, flags)),
    )
  const keys = slipway.command('keys').description('list, add and revoke your API keys of a sandbox server')
  keys
    .command('ls', { isDefault: true })
    .description('list your keys')
    .action(() => run(async (context) => (await load()).listKeysCommand(context)))
  keys
    .command('add')
    .description('make a key, and print it once')
    .argument('<name>', 'what it is for')
    .option('--read-only', 'a key that only reads', false)
    .option('--expires <time>', 'when it ends, as a date or a time', timeFlag)
    .action((name: string, flags: { readOnly: boolean; expires?: string }) =>
      run(async (context) => (await load()).addKeyCommand(context, name, flags)),
    )
  keys
    .command('rm')
    .description('revoke a key')
    .argument('<key>', 'id of the key')
    .action((id: string) => run(async (context) => (await load()).removeKeyCommand(context, id)))
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
