import type { Command } from 'commander'
import type { Config } from '../context/config.ts'
import type { ConfigFile } from '../context/config-file.ts'
import { fileSettings } from '../context/file-settings.ts'

interface ConfigDeps {
  readonly config: Config
  readonly outcome: { code: number }
  readonly signal: AbortSignal
}

const keyText = 'table.name of the setting; "slipway config schema" has all of them'

/** The commands for `config.toml`. */
export function addConfigCommands(slipway: Command, { config, outcome, signal }: ConfigDeps): void {
  const deps = () => ({ config, isJson: slipway.opts<{ json: boolean }>().json, signal })
  const load = () => import('../commands/settings/config.ts')
  const group = slipway
    .command('config')
    .description('show and change the settings in config.toml; flags and the environment override them')
    .addHelpText(
      'after',
      () => `\nSettings, and the variables that override them:\n\n${settingLines().join('\n')}`,
    )
  group
    .command('list', { isDefault: true })
    .description('list the settings that are set, and where; secrets are not shown')
    .action(async () => (await load()).listConfigCommand(deps()))
  group
    .command('get')
    .description('print the value that counts; a secret is not shown')
    .argument('<key>', keyText)
    .action(async (key: string) => {
      outcome.code = await (await load()).getConfigCommand(deps(), key)
    })
  group
    .command('set')
    .description('set a setting; comments of the file stay')
    .argument('<key>', keyText)
    .argument('[value]', 'its value, - for standard input; the terminal asks otherwise. Lists: a,b or JSON')
    .action(async (key: string, value?: string) => (await load()).setConfigCommand(deps(), key, value))
  group
    .command('unset')
    .description('remove a setting from the file')
    .argument('<key>', keyText)
    .action(async (key: string) => (await load()).unsetConfigCommand(deps(), key))
  group
    .command('edit')
    .description('open a copy in VISUAL or EDITOR; it replaces the file when it is valid')
    .action(async () => (await load()).editConfigCommand(deps()))
  group
    .command('path')
    .description('print the path of the file')
    .action(async () => (await load()).configPathCommand(deps()))
  group
    .command('schema')
    .description('print the JSON Schema of the file, for editors')
    .action(async () => (await load()).configSchemaCommand())
}

function settingLines(): string[] {
  return [...fileSettings.values()].map(({ key, variable, schema: { description, default: value } }) => {
    const shown = value === undefined ? '' : ` (default: ${value})`
    return `  ${key}, ${variable}${shown}\n      ${description}`
  })
}

/** Throws the problem of the file, except for commands that need nothing of it or repair it. */
export function assertConfigFile(command: Command, { problem }: ConfigFile): void {
  const needsNone =
    /^(version|completion)$/.test(command.name()) ||
    (command.parent?.name() === 'config' && /^(edit|path|schema)$/.test(command.name()))
  if (problem !== undefined && !needsNone) throw problem
}
