import type { Command } from 'commander'
import type { ConversationDeps } from './server-selection.ts'

/** The commands for the installed applications of an agent server. */
export function addApplicationCommands(slipway: Command, { context }: ConversationDeps): void {
  const load = () => import('../commands/settings/applications.ts')
  const group = slipway
    .command('applications')
    .description('approve, start and open the installed applications of an agent server')
  group
    .command('ls', { isDefault: true })
    .description('list the installed applications, and the state of their programs')
    .action(async () => (await load()).listApplicationsCommand(context()))
  group
    .command('approve')
    .description('show what an application runs and which secrets it gets, and ask whether it may')
    .argument('<name>', 'name of the application')
    .option('--yes', 'approve what is shown without a question', false)
    .action(async (name: string, flags: { yes: boolean }) =>
      (await load()).approveApplicationCommand(context(), name, flags),
    )
  group
    .command('start')
    .description('start the approved program of an application')
    .argument('<name>', 'name of the application')
    .action(async (name: string) => (await load()).startApplicationCommand(context(), name))
  group
    .command('stop')
    .description('stop the program of an application')
    .argument('<name>', 'name of the application')
    .action(async (name: string) => (await load()).stopApplicationCommand(context(), name))
  group
    .command('open')
    .description('print an address that opens an application once, in a browser on the machine of the server')
    .argument('<name>', 'name of the application')
    .action(async (name: string) => (await load()).openApplicationCommand(context(), name))
}
