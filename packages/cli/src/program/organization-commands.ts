import { type Command, Option } from 'commander'
import type { OrgRole } from '../commands/sandboxes/organizations.ts'
import type { SandboxServerContext } from '../context/command-context.ts'
import type { Limit } from '../parsing/limit.ts'
import { limitFlag } from './flags.ts'

type RunWithClient = (work: (context: SandboxServerContext) => Promise<unknown>) => Promise<void>

const load = () => import('../commands/sandboxes/organizations.ts')
const perDay = limitFlag(1_000_000)
const perDayText = 'conversations a day of a member: a number, unlimited (or -1), or default'
const orgText = 'id or name of the organisation'
const userText = 'id of the user; the name where you may list users, or of a member'

/** Organisations of a sandbox server and their members. */
export function addOrganizationCommands(slipway: Command, run: RunWithClient): void {
  const orgs = slipway.command('orgs').description('list, add and change organisations of a sandbox server')
  orgs
    .command('ls', { isDefault: true })
    .description('list the organisations')
    .action(() => run(async (context) => (await load()).listOrgsCommand(context)))
  orgs
    .command('add')
    .description('add an organisation, and print its id')
    .argument('<name>', 'name of the organisation')
    .option('--per-day <number>', perDayText, perDay)
    .action((name: string, flags: { perDay?: Limit }) =>
      run(async (context) => (await load()).addOrgCommand(context, name, flags)),
    )
  orgs
    .command('show')
    .description('show an organisation, and how much belongs to it')
    .argument('<org>', orgText)
    .action((org: string) => run(async (context) => (await load()).showOrgCommand(context, org)))
  orgs
    .command('set')
    .description('change an organisation; what is not named stays')
    .argument('<org>', orgText)
    .option('--name <name>', 'another name')
    .option('--per-day <number>', perDayText, perDay)
    .action((org: string, flags: { name?: string; perDay?: Limit }) =>
      run(async (context) => (await load()).setOrgCommand(context, org, flags)),
    )
  orgs
    .command('rm')
    .description(
      'remove an organisation, its memberships and the keys bound to it; refused while it has work',
    )
    .argument('<org>', orgText)
    .action((org: string) => run(async (context) => (await load()).removeOrgCommand(context, org)))
  orgs
    .command('members')
    .description('list the members of an organisation')
    .argument('<org>', orgText)
    .action((org: string) => run(async (context) => (await load()).listMembersCommand(context, org)))
  orgs
    .command('add-member')
    .description('make a user a member, or change the role of a member; owners and admins of it may')
    .argument('<org>', orgText)
    .argument('<user>', userText)
    .addOption(new Option('--role <role>', 'what the member may do').choices(['owner', 'admin', 'member']))
    .action((org: string, user: string, flags: { role?: OrgRole }) =>
      run(async (context) => (await load()).addMemberCommand(context, org, user, flags)),
    )
  orgs
    .command('rm-member')
    .description('take a user out of an organisation, with the keys that are bound to it')
    .argument('<org>', orgText)
    .argument('<user>', userText)
    .action((org: string, user: string) =>
      run(async (context) => (await load()).removeMemberCommand(context, org, user)),
    )
}
