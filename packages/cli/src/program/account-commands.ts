import type { Command } from 'commander'
import type { SandboxServerContext } from '../context/command-context.ts'
import { integerFlag, timeFlag } from './flags.ts'

type RunWithClient = (work: (context: SandboxServerContext) => Promise<unknown>) => Promise<void>

const load = () => import('../commands/verbs/accounts.ts')
const count = integerFlag(0, 1_000_000_000)

/** Users, keys and quotas of a sandbox server. */
export function addAccountCommands(slipway: Command, run: RunWithClient): void {
  const users = slipway.command('users').description('list, add and remove users of a sandbox server')
  users
    .command('ls', { isDefault: true })
    .description('list the users')
    .action(() => run(async (context) => (await load()).listUsersCommand(context)))
  users
    .command('add')
    .description('add a user, and print a key of the user once')
    .argument('<name>', 'name of the user')
    .option('--email <address>', 'mail address')
    .option('--admin', 'make an administrator', false)
    .option('--per-day <number>', 'conversations a day', count)
    .action((name: string, flags: { email?: string; admin: boolean; perDay?: number }) =>
      run(async (context) => (await load()).addUserCommand(context, name, flags)),
    )
  users
    .command('rm')
    .description('remove a user and the keys of the user')
    .argument('<user>', 'id or name of the user')
    .action((id: string) => run(async (context) => (await load()).removeUserCommand(context, id)))
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
    .description('show what you have used')
    .action(() => run(async (context) => (await load()).quotaCommand(context)))
  quotas
    .command('set')
    .description('set limits of a user; those that are not named stay')
    .argument('<user>', 'id or name of the user')
    .option('--per-day <number>', 'conversations a day', count)
    .option('--conversations <number>', 'conversations that are stored', count)
    .option('--stored-mb <number>', 'megabytes of events that are stored', count)
    .action((id: string, flags: { perDay?: number; conversations?: number; storedMb?: number }) =>
      run(async (context) => (await load()).setQuotaCommand(context, id, flags)),
    )
}
