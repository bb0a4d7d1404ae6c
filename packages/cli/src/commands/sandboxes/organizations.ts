import { Problem } from '@slipway/protocol/client'
import type { SandboxServerContext } from '../../context/command-context.ts'
import { findMemberId, findOrgId } from '../../context/find-user.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printResult, table } from '../../output/terminal.ts'
import type { Limit } from '../../parsing/limit.ts'
import { formatOwnLimit, toMember } from './accounts.ts'

export type OrgRole = 'owner' | 'admin' | 'member'

interface OrgFlags {
  readonly name?: string
  readonly perDay?: Limit
  /** None: all. */
  readonly models?: readonly string[]
  readonly specs?: readonly string[]
}

/** Lists the organisations of a sandbox server; of users who are no administrators their own. */
export async function listOrgsCommand({ client, isJson, signal }: SandboxServerContext): Promise<void> {
  let page_id: string | undefined
  let isFirst = true
  do {
    const page = await client.call('listOrganizations', { query: { limit: '100', page_id }, signal })
    const rows = page.items.map(({ id, name, daily_conversation_limit }) => [
      sanitizeLine(id),
      formatOwnLimit(daily_conversation_limit),
      sanitizeLine(name),
    ])
    if (isJson) await print(page.items.map((item) => `${JSON.stringify(item)}\n`).join(''))
    else await print(table(rows, [38, 11], isFirst ? ['ID', 'PER DAY', 'NAME'] : undefined))
    isFirst = false
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
}

export async function addOrgCommand(
  { client, isJson, signal }: SandboxServerContext,
  name: string,
  { perDay }: OrgFlags,
): Promise<void> {
  const body = { name, daily_conversation_limit: toMember(perDay) ?? null }
  const org = await client.call('createOrganization', { body, signal })
  await printResult(isJson, org, sanitizeLine(org.id))
}

/** Shows an organisation, named by id or name, and how much belongs to it. */
export async function showOrgCommand(context: SandboxServerContext, org: string): Promise<void> {
  const { client, isJson, signal } = context
  const params = { org_id: await findOrgId(context, org) }
  const shown = await client.call('getOrganization', { params, signal })
  if (isJson) return await print(`${JSON.stringify(shown)}\n`)
  const { id, name, daily_conversation_limit, is_exempt, members, sandboxes, conversations } = shown
  const limit = formatOwnLimit(daily_conversation_limit)
  const rows = [
    ['id', sanitizeLine(id)],
    ['name', sanitizeLine(name)],
    ['per day', is_exempt && daily_conversation_limit === null ? 'exempt, with a key bound to it' : limit],
    ['models', sanitizeLine(shown.allowed_models?.join(', ') ?? 'all')],
    ['sandbox specs', sanitizeLine(shown.allowed_specs?.join(', ') ?? 'all')],
    ['members', String(members)],
    ['sandboxes', String(sandboxes)],
    ['conversations', String(conversations)],
  ]
  await print(table(rows, [14]))
}

/** Changes the name and the limits of an organisation; what is not named stays. */
export async function setOrgCommand(
  context: SandboxServerContext,
  org: string,
  { name, perDay, models, specs }: OrgFlags,
): Promise<void> {
  const { client, isJson, signal } = context
  if ([name, perDay, models, specs].every((flag) => flag === undefined))
    throw new Problem('bad_request', 'Name what to change: --name, --per-day, --models or --specs.')
  const params = { org_id: await findOrgId(context, org) }
  const toAllowed = (names?: readonly string[]) => names && (names.length === 0 ? null : [...names])
  const [allowed_models, allowed_specs] = [toAllowed(models), toAllowed(specs)]
  const body = { name, daily_conversation_limit: toMember(perDay), allowed_models, allowed_specs }
  const changed = await client.call('updateOrganization', { params, body, signal })
  await printResult(isJson, changed, 'changed')
}

/** Removes an organisation, its memberships and its keys, unless work belongs to it. */
export async function removeOrgCommand(context: SandboxServerContext, org: string): Promise<void> {
  const { client, isJson, signal } = context
  const org_id = await findOrgId(context, org)
  await client.call('deleteOrganization', { params: { org_id }, signal })
  await printResult(isJson, { org_id, status: 'removed' }, 'removed')
}

export async function listMembersCommand(context: SandboxServerContext, org: string): Promise<void> {
  const { client, isJson, signal } = context
  const params = { org_id: await findOrgId(context, org) }
  let page_id: string | undefined
  do {
    const page = await client.call('listMembers', { params, query: { limit: '100', page_id }, signal })
    const rows = page.items.map(({ id, name, email, role }) => [
      sanitizeLine(id),
      role,
      sanitizeLine([name, email].filter((part) => part !== null).join(', ')),
    ])
    if (isJson) await print(page.items.map((item) => `${JSON.stringify(item)}\n`).join(''))
    else await print(table(rows, [38, 7]))
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
}

/** Makes a user a member of an organisation, and sets the role of the member where one is named. */
export async function addMemberCommand(
  context: SandboxServerContext,
  org: string,
  user: string,
  { role }: { readonly role?: OrgRole },
): Promise<void> {
  const { client, isJson, signal } = context
  const params = await findMember(context, org, user)
  await client.call('joinOrganization', { params, body: { role }, signal })
  const status = role === undefined ? 'added' : `added as ${role}`
  await printResult(isJson, { ...params, role, status: 'added' }, status)
}

/** Takes a user out of an organisation, with the keys that are bound to it. */
export async function removeMemberCommand(
  context: SandboxServerContext,
  org: string,
  user: string,
): Promise<void> {
  const { client, isJson, signal } = context
  const params = await findMember(context, org, user)
  await client.call('leaveOrganization', { params, signal })
  await printResult(isJson, { ...params, status: 'removed' }, 'removed')
}

async function findMember(context: SandboxServerContext, org: string, user: string) {
  const org_id = await findOrgId(context, org)
  return { org_id, user_id: await findMemberId(context, org_id, user) }
}
