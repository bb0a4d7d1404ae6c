import type { Command } from 'commander'
import type { ConversationDeps } from './server-selection.ts'

/** The commands for the secrets that an agent server stores. */
export function addSecretCommands(slipway: Command, { context }: ConversationDeps): void {
  const load = () => import('../commands/settings/secrets.ts')
  const group = slipway
    .command('secrets')
    .description('manage the secrets that "run --secret NAME" lets an agent use; values are never shown')
  group
    .command('ls', { isDefault: true })
    .description('list the names of the secrets')
    .action(async () => (await load()).listSecretsCommand(context()))
  group
    .command('set')
    .description('store a secret, sealed; the terminal asks for its value')
    .argument('<name>', 'its name, which is the variable that commands read')
    .argument('[source]', '- reads the value from standard input')
    .option('--description <text>', 'what it is for; the agent sees it')
    .action(async (name: string, source: string | undefined, flags: { description?: string }) =>
      (await load()).setSecretCommand(context(), name, { source, ...flags }),
    )
  group
    .command('rm')
    .description('delete a secret')
    .argument('<name>', 'its name')
    .action(async (name: string) => (await load()).removeSecretCommand(context(), name))
}
