import { userDataDirectory } from '@slipway/shared/process'
import type { Command } from 'commander'
import type { CommandContext } from '../context/command-context.ts'
import { type Config, serverEnvironment } from '../context/config.ts'
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
  addDocumentCommands(slipway, config)
  addDataCommand(slipway, config)
  addMigrateCommand(slipway, env, isJson)
}

/** The commands for what a server stores beside conversations. */
function addDocumentCommands(slipway: Command, config: Config): void {
  const { env, dataDirectory } = config
  const serverEnv = () => serverEnvironment(config, 'agent_server', env)
  const load = () => import('../commands/server/documents.ts')
  const isJson = () => slipway.opts<{ json: boolean }>().json
  const group = slipway
    .command('documents')
    .description(
      'settings, profiles and sealed secrets as a server stores them; no server may use a directory',
    )
    .option('--data <directory>', `data directory; ${usualData}`, dataDirectory)
    .option('--database <address>', 'postgres://… instead of a data directory; its servers may run')
  const findPlace = async () => {
    const { data, database } = group.opts<DataFlag & { database?: string }>()
    return database ?? (await findData(data, env))
  }
  group
    .command('ls', { isDefault: true })
    .description('list the documents')
    .action(async () => (await load()).listDocumentsCommand(await findPlace(), serverEnv(), isJson()))
  group
    .command('get')
    .description('print a document; a sealed one as base64')
    .argument('<name>', 'its name')
    .action(async (name: string) => (await load()).getDocumentCommand(await findPlace(), name))
  group
    .command('put')
    .description('replace a document by a file, as get prints it')
    .argument('<name>', 'its name')
    .argument('<file>', 'the file')
    .action(async (name: string, file: string) =>
      (await load()).putDocumentCommand(await findPlace(), {
        name,
        file,
        env: serverEnv(),
        isJson: isJson(),
      }),
    )
  group
    .command('rm')
    .description('remove a document: the server continues without what it has')
    .argument('<name>', 'its name')
    .action(async (name: string) =>
      (await load()).removeDocumentCommand(await findPlace(), { name, env: serverEnv(), isJson: isJson() }),
    )
}

function addMigrateCommand(slipway: Command, env: Config['env'], isJson: () => boolean): void {
  slipway
    .command('migrate')
    .description('copy a data directory into PostgreSQL, or back; no server may run')
    .requiredOption('--from <place>', 'data directory, or postgres://…')
    .requiredOption('--to <place>', 'the other one')
    .addHelpText('after', '\nRepeat an interrupted migration: it continues. The source stays as it is.')
    .action(async (places: { from: string; to: string }) => {
      const { migrateCommand } = await import('../commands/server/backup.ts')
      await migrateCommand({ ...places, env }, isJson())
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
