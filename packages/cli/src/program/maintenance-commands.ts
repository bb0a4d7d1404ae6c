import { userDataDirectory } from '@slipway/shared/process'
import type { Command } from 'commander'
import type { CommandContext } from '../context/command-context.ts'
import type { Config } from '../context/config.ts'
import { findData, findUsedData } from '../context/data-directory.ts'
import { printNote } from '../output/terminal.ts'
import { ageFlag, integerFlag } from './flags.ts'
import type { ConversationDeps, ServerSelection } from './server-selection.ts'

interface MaintenanceDeps {
  readonly config: Config
  readonly outcome: { code: number }
  readonly selection: Pick<ServerSelection, 'select'>
  readonly deps: Pick<ConversationDeps, 'context'>
}

const usualData = 'default: see "slipway data"'

/** The commands that work on the files of a data directory. */
export function addMaintenanceCommands(
  slipway: Command,
  { config, outcome, selection, deps }: MaintenanceDeps,
): void {
  const isJson = () => slipway.opts<{ json: boolean }>().json
  const { env, dataDirectory } = config
  const command = (name: string, description: string, usual = usualData) =>
    slipway
      .command(name)
      .description(description)
      .option('--data <directory>', `data directory; ${usual}`, dataDirectory)
  /**
   * The named directory, else the one that is there; a note says so when it is another than servers use here.
   */
  const dataOf = async ({ data }: DataFlag): Promise<string> => {
    const found = await findUsedData(data, env)
    if (data === undefined && found === userDataDirectory(env))
      printNote(`Data directory of your private server: ${found}`)
    return found
  }
  const usual = 'default: the one of this directory, else that of your private server'
  command('backup', 'add a step to a backup of a data directory, also while a server uses it', usual)
    .argument('<directory>', 'directory of the backup; created at the first one')
    .option('--without-secrets', 'leave out keys and stored secrets', false)
    .option('--full', 'copy the whole log again', false)
    .option('--verify', 'only verify the backup: read all of it, and rebuild its newest log', false)
    .option('--list', 'only list the steps of the backup: time, conversations, size', false)
    .action(async (target: string, options: BackupFlags) => {
      const { backupCommand, listBackupCommand, verifyCommand } = await import('../commands/server/backup.ts')
      if (options.list) return await listBackupCommand(target, isJson())
      if (options.verify) return await verifyCommand(target, isJson())
      await backupCommand(target, { ...options, data: await dataOf(options) }, isJson())
    })
  command('restore', 'write a new data directory from a backup')
    .argument('<directory>', 'directory of the backup')
    .option('--step <number>', 'this step; default: the newest', integerFlag(1, 1_000_000_000))
    .action(async (source: string, { data, step }: DataFlag & { step?: number }) => {
      const { restoreCommand } = await import('../commands/server/backup.ts')
      await restoreCommand(source, { data: await findData(data, env), step }, isJson())
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
    .action(async ({ data, deep, repair }: DataFlag & { deep: boolean; repair: boolean }) => {
      const { doctorCommand } = await import('../doctor/doctor.ts')
      outcome.code = await doctorCommand({ data, deep, repair }, config, isJson())
    })
  command('du', 'show what a data directory takes on the disk, and its largest conversations', usual)
    .option('--limit <number>', 'conversations to list', integerFlag(0, 1_000_000), 20)
    .action(async (options: DataFlag & { limit: number }) => {
      const { usageCommand } = await import('../commands/server/disk-usage.ts')
      await usageCommand(await dataOf(options), options.limit, isJson())
    })
  command('compact', 'give the free space of the databases back; a running server does it itself').action(
    async ({ data }: DataFlag) => {
      const { compactCommand } = await import('../commands/server/disk-usage.ts')
      await compactCommand(() => findData(data, env), {
        isJson: isJson(),
        isRemote: slipway.getOptionValueSource('url') === 'cli',
        connect: async () => {
          await selection.select(data, ['agent'])
          return deps.context()
        },
      })
    },
  )
  addDataCommand(slipway, config)
  addMigrateCommand(slipway, isJson)
}

function addMigrateCommand(slipway: Command, isJson: () => boolean): void {
  slipway
    .command('migrate')
    .description('copy a data directory into PostgreSQL, or back; no server may run')
    .requiredOption('--from <place>', 'data directory, or postgres://…')
    .requiredOption('--to <place>', 'the other one')
    .addHelpText('after', '\nRepeat an interrupted migration: it goes on. The source stays as it is.')
    .action(async (places: { from: string; to: string }) => {
      const { migrateCommand } = await import('../commands/server/backup.ts')
      await migrateCommand(places, isJson())
    })
}

function addDataCommand(slipway: Command, config: Config): void {
  slipway
    .command('data')
    .description('print the data directory of a server that is started here; its session.key is there')
    .option('--sandboxes', 'that of the sandbox server', false)
    .option('--adopt', 'use the one that lies in this directory: you vouch for it', false)
    .action(async ({ sandboxes, adopt: isAdopting }: { sandboxes: boolean; adopt: boolean }) => {
      const { dataCommand } = await import('../commands/server/data.ts')
      const kind = sandboxes ? 'sandbox' : 'agent'
      await dataCommand(config, { kind, isAdopting }, slipway.opts<{ json: boolean }>().json)
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
      const { pruneCommand } = await import('../commands/conversations/prune.ts')
      await pruneCommand(context(), { ...options, olderThanMs: options.olderThan })
    })
}

interface DataFlag {
  readonly data?: string
}

interface BackupFlags extends DataFlag {
  readonly withoutSecrets: boolean
  readonly full: boolean
  readonly verify: boolean
  readonly list: boolean
}
