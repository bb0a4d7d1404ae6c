import type { Command } from 'commander'
import type { Config } from '../context/config.ts'
import { integerFlag } from './flags.ts'

interface MaintenanceDeps {
  readonly config: Config
  readonly outcome: { code: number }
}

/** The commands that work on the files of a data directory. */
export function addMaintenanceCommands(slipway: Command, { config }: MaintenanceDeps): void {
  const isJson = () => slipway.opts<{ json: boolean }>().json
  const command = (name: string, description: string) =>
    slipway
      .command(name)
      .description(description)
      .option('--data <directory>', 'data directory', config.dataDirectory)
  command('backup', 'add a step to a backup of a data directory, also while a server uses it')
    .argument('<directory>', 'directory of the backup; created at the first one')
    .option('--without-secrets', 'leave out keys and stored secrets', false)
    .option('--full', 'copy the whole log again', false)
    .option('--verify', 'only verify the backup: read all of it, and rebuild its newest log', false)
    .action(async (target: string, options: BackupFlags) => {
      const { backupCommand, verifyCommand } = await import('../commands/backup.ts')
      await (options.verify ? verifyCommand(target, isJson()) : backupCommand(target, options, isJson()))
    })
  command('restore', 'write a new data directory from a backup')
    .argument('<directory>', 'directory of the backup')
    .option('--step <number>', 'this step; default: the newest', integerFlag(1, 1_000_000_000))
    .action(async (source: string, options: { data: string; step?: number }) => {
      const { restoreCommand } = await import('../commands/backup.ts')
      await restoreCommand(source, options, isJson())
    })
}

interface BackupFlags {
  readonly data: string
  readonly withoutSecrets: boolean
  readonly full: boolean
  readonly verify: boolean
}
