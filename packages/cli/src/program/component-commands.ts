import { Argument, type Command } from 'commander'

/** The commands for the parts that are fetched when something needs them. */
export function addComponentCommands(slipway: Command): void {
  const load = () => import('../commands/settings/components.ts')
  const isJson = () => slipway.opts<{ json: boolean }>().json
  const name = () => new Argument('<name>', 'browser or node')
  const group = slipway
    .command('components')
    .description('fetch and remove the parts that are not installed with the command')
  group
    .command('ls', { isDefault: true })
    .description('list the components and whether they are installed')
    .action(async () => (await load()).listComponentsCommand(isJson()))
  group
    .command('add')
    .description('fetch a component with npm, in the version that this release was tested with')
    .addArgument(name())
    .action(async (name: string) => (await load()).addComponentCommand(name, isJson()))
  group
    .command('rm')
    .description('remove a component')
    .addArgument(name())
    .action(async (name: string) => (await load()).removeComponentCommand(name, isJson()))
}
