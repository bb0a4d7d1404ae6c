import { type Command, Option } from 'commander'
import type { CommandContext } from '../context/command-context.ts'
import { type Config, isDataNamed } from '../context/config.ts'
import { findDataDirectory } from '../context/private-server.ts'
import { printNote } from '../output/terminal.ts'
import { ageFlag, integerFlag } from './flags.ts'
import type { ConversationDeps, ServerSelection } from './server-selection.ts'

interface MaintenanceDeps {
  readonly config: Config
  readonly outcome: { code: number }
  readonly selection: Pick<ServerSelection, 'select'>
  readonly deps: Pick<ConversationDeps, 'context'>
}

/** The commands that work on the files of a data directory. */
export function addMaintenanceCommands(
  slipway: Command,
  { config, outcome, selection, deps }: MaintenanceDeps,
): void {
  const isJson = () => slipway.opts<{ json: boolean }>().json
  const command = (name: string, description: string, usual?: string) =>
    slipway
      .command(name)
      .description(description)
      .addOption(
        new Option('--data <directory>', 'data directory').default(
          config.dataDirectory,
          isDataNamed(config) ? undefined : usual,
        ),
      )
  const isNamed = (command: Command) => command.getOptionValueSource('data') === 'cli' || isDataNamed(config)
  /** The named directory, else the one that is there; a note says so when it is another than commands use here. */
  const dataOf = async (command: Command): Promise<string> => {
    const { data } = command.opts<{ data: string }>()
    const found = await findDataDirectory(data, isNamed(command), config.env)
    if (found !== data) printNote(`Data directory of your private server: ${found}`)
    return found
  }
  const usual = 'the one of this directory, else that of your private server'
  command('backup', 'add a step to a backup of a data directory, also while a server uses it', usual)
    .argument('<directory>', 'directory of the backup; created at the first one')
    .option('--without-secrets', 'leave out keys and stored secrets', false)
    .option('--full', 'copy the whole log again', false)
    .option('--verify', 'only verify the backup: read all of it, and rebuild its newest log', false)
    .option('--list', 'only list the steps of the backup: time, conversations, size', false)
    .action(async (target: string, options: BackupFlags, command: Command) => {
      const { backupCommand, listBackupCommand, verifyCommand } = await import('../commands/backup.ts')
      if (options.list) return await listBackupCommand(target, isJson())
      if (options.verify) return await verifyCommand(target, isJson())
      await backupCommand(target, { ...options, data: await dataOf(command) }, isJson())
    })
  command('restore', 'write a new data directory from a backup')
    .argument('<directory>', 'directory of the backup')
    .option('--step <number>', 'this step; default: the newest', integerFlag(1, 1_000_000_000))
    .action(async (source: string, options: { data: string; step?: number }) => {
      const { restoreCommand } = await import('../commands/backup.ts')
      await restoreCommand(source, options, isJson())
    })
  command(
    'doctor',
    'examine this machine, settings, model and a data directory, also while a server uses it',
    usual,
  )
    .option('--deep', 'read every event and every indexed text', false)
    .option(
      '--repair',
      'set damaged events aside, drop leftovers, rebuild the index; no server may run',
      false,
    )
    .addHelpText('after', '\nExit codes: 0 nothing is wrong, 1 something is; warnings alone are 0.')
    .action(async (options: { data: string; deep: boolean; repair: boolean }, command: Command) => {
      const { doctorCommand } = await import('../doctor/doctor.ts')
      outcome.code = await doctorCommand({ ...options, isDataNamed: isNamed(command) }, config, isJson())
    })
  command('du', 'show what a data directory takes on the disk, and its largest conversations', usual)
    .option('--limit <number>', 'conversations to list', integerFlag(0, 1_000_000), 20)
    .action(async ({ limit }: { limit: number }, command: Command) => {
      const { usageCommand } = await import('../commands/disk-usage.ts')
      await usageCommand(await dataOf(command), limit, isJson())
    })
  command('compact', 'give the free space of the databases back; a running server does it itself').action(
    async ({ data }: { data: string }) => {
      const { compactCommand } = await import('../commands/disk-usage.ts')
      await compactCommand(data, {
        isJson: isJson(),
        isRemote: slipway.getOptionValueSource('url') === 'cli',
        connect: async () => {
          await selection.select(data, ['agent'])
          return deps.context()
        },
      })
    },
  )
  slipway
    .command('migrate')
    .description('copy a data directory into PostgreSQL, or back; no server may run')
    .requiredOption('--from <place>', 'data directory, or postgres://…')
    .requiredOption('--to <place>', 'the other one')
    .addHelpText('after', '\nRepeat an interrupted migration: it goes on. The source stays as it is.')
    .action(async (places: { from: string; to: string }) => {
      const { migrateCommand } = await import('../commands/backup.ts')
      await migrateCommand(places, isJson())
    })
}

/** The command that deletes old conversations of a server. */
export function addPruneCommand(slipway: Command, context: () => CommandContext): void {
  slipway
    .command('prune')
    .description('delete conversations that have not changed for long; those that run stay')
    .requiredOption('--older-than <age>', 'age of the last change: 90d, 12h or 30m', ageFlag)
    .option('--keep-tagged', 'keep conversations that have a tag', false)
    .option('--dry-run', 'only list them', false)
    .action(async (options: { olderThan: number; keepTagged: boolean; dryRun: boolean }) => {
      const { pruneCommand } = await import('../commands/prune.ts')
      await pruneCommand(context(), { ...options, olderThanMs: options.olderThan })
    })
}

interface BackupFlags {
  readonly data: string
  readonly withoutSecrets: boolean
  readonly full: boolean
  readonly verify: boolean
  readonly list: boolean
}
