import { type Command, Option } from 'commander'
import type { AuditFlags } from '../commands/sandboxes/audit.ts'
import type { SandboxServerContext } from '../context/command-context.ts'
import { pageSizeFlag, timeFlag } from './flags.ts'

type RunWithClient = (work: (context: SandboxServerContext) => Promise<unknown>) => Promise<void>

const load = () => import('../commands/sandboxes/audit.ts')

/** Who changed what on a sandbox server. */
export function addAuditCommands(slipway: Command, run: RunWithClient): void {
  const audit = slipway.command('audit').description('show and export who changed what on a sandbox server')
  filterOptions(audit.command('ls', { isDefault: true }).description('list the newest changes'))
    .option('-n, --limit <number>', 'how many, at most 100', pageSizeFlag, '20')
    .action((flags: AuditFlags & { limit: string }) =>
      run(async (context) => (await load()).listAuditCommand(context, flags)),
    )
  filterOptions(audit.command('export').description('write all lines that match, the newest first'))
    .addOption(new Option('--format <name>', 'of the lines').choices(['jsonl', 'csv']).default('jsonl'))
    .option('--output <file>', 'the file; the standard output unless given')
    .action((flags: AuditFlags & { format: 'jsonl' | 'csv'; output?: string }) =>
      run(async (context) => (await load()).exportAuditCommand(context, flags)),
    )
}

function filterOptions(command: Command): Command {
  return command
    .option('--user <user>', 'only what this user did, by id or name')
    .option('--action <operation>', 'only this operation, such as deleteUser')
    .option('--target <id>', 'only what was about this id or name')
    .option('--from <time>', 'only at this time or later', timeFlag)
    .option('--to <time>', 'only before this time', timeFlag)
    .option('--refused', 'only what was refused or failed', false)
}
