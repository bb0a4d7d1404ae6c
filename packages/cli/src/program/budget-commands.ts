import { type Command, Option } from 'commander'
import type { BudgetFlags, RequestsFlags } from '../commands/sandboxes/budgets.ts'
import type { SandboxServerContext } from '../context/command-context.ts'
import { dollarsArgument, positiveFlag } from './flags.ts'

type RunWithClient = (work: (context: SandboxServerContext) => Promise<unknown>) => Promise<void>

const load = () => import('../commands/sandboxes/budgets.ts')
const ofOrg = 'the name is that of an organisation'

/** Budgets in money of a sandbox server. */
export function addBudgetCommands(slipway: Command, run: RunWithClient): void {
  const budgets = slipway
    .command('budgets')
    .description('show and set what users and organisations may spend on models in a month')
  budgets
    .command('show', { isDefault: true })
    .description('show the budgets that apply to you, and what is left of them')
    .action(() => run(async (context) => (await load()).showBudgetsCommand(context)))
  budgets
    .command('ls')
    .description('list the budgets of all users and organisations; administrators may')
    .action(() => run(async (context) => (await load()).listBudgetsCommand(context)))
  budgets
    .command('set')
    .description('set the budget of a user for each month (UTC)')
    .argument('<user>', 'id or name of the user')
    .argument('<dollars>', 'dollars a month', dollarsArgument)
    .option('--org', ofOrg, false)
    .action((name: string, dollars: number, flags: BudgetFlags) =>
      run(async (context) => (await load()).setBudgetCommand(context, name, dollars, flags)),
    )
  budgets
    .command('rm')
    .description('remove the budget of a user, who is not limited any more')
    .argument('<user>', 'id or name of the user')
    .option('--org', ofOrg, false)
    .action((name: string, flags: BudgetFlags) =>
      run(async (context) => (await load()).removeBudgetCommand(context, name, flags)),
    )
  budgets
    .command('request')
    .description('ask for more in this month; an administrator answers')
    .argument('<dollars>', 'dollars in addition', positiveFlag)
    .requiredOption('--reason <text>', 'what it is for')
    .option('--org', 'for the budget of the organisation', false)
    .action((dollars: number, flags: BudgetFlags & { reason: string }) =>
      run(async (context) => (await load()).requestBudgetCommand(context, dollars, flags)),
    )
  budgets
    .command('requests')
    .description('list your requests for more, and their answers')
    .option('--all-users', 'those of all users; administrators may', false)
    .addOption(new Option('--status <status>', 'only these').choices(['open', 'granted', 'denied']))
    .action((flags: RequestsFlags) =>
      run(async (context) => (await load()).listBudgetRequestsCommand(context, flags)),
    )
  budgets
    .command('grant')
    .description('grant a request: the budget is raised for this month')
    .argument('<request>', 'id of the request')
    .option('--amount <dollars>', 'another amount than was asked for', positiveFlag)
    .option('--note <text>', 'shown with the answer')
    .action((id: string, flags: { amount?: number; note?: string }) =>
      run(async (context) => (await load()).grantBudgetCommand(context, id, flags)),
    )
  budgets
    .command('deny')
    .description('deny a request')
    .argument('<request>', 'id of the request')
    .option('--note <text>', 'shown with the answer')
    .action((id: string, flags: { note?: string }) =>
      run(async (context) => (await load()).denyBudgetCommand(context, id, flags)),
    )
}
