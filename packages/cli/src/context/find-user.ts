import { CallError } from '@slipway/client'
import { Problem } from '@slipway/protocol/client'
import { sanitizeLine } from '../output/sanitize.ts'
import type { SandboxServerContext } from './command-context.ts'

/** The id of the user with this id or, when only one has it, this name. */
export function findUserId(context: SandboxServerContext, user: string): Promise<string> {
  return findId(context, user, { operation: 'listUsers', what: 'user', plural: 'users', command: 'users' })
}

/** Whether a user has this name. */
export async function isUserNamed({ client, signal }: SandboxServerContext, name: string): Promise<boolean> {
  let page_id: string | undefined
  do {
    const page = await client.call('listUsers', { query: { limit: '100', page_id }, signal })
    if (page.items.some((user) => user.name === name)) return true
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
  return false
}

/** The id of the organisation with this id or, when only one has it, this name. */
export function findOrgId(context: SandboxServerContext, org: string): Promise<string> {
  const about = { what: 'organisation', plural: 'organisations', command: 'orgs' } as const
  return findId(context, org, { operation: 'listOrganizations', ...about })
}

/**
 * The id of a user for an organisation. Only administrators list all users: others name a member, or give an
 * id, which is returned as it is.
 */
export async function findMemberId(
  context: SandboxServerContext,
  org_id: string,
  user: string,
): Promise<string> {
  try {
    return await findUserId(context, user)
  } catch (error) {
    if (!(error instanceof CallError) || error.status !== 403) throw error
    const { client, signal } = context
    const params = { org_id }
    const list = (page_id: string | undefined) =>
      client.call('listMembers', { params, query: { limit: '100', page_id }, signal })
    return (await findNamed(list, user, 'members')) ?? user
  }
}

interface Listed {
  readonly operation: 'listUsers' | 'listOrganizations'
  readonly what: string
  readonly plural: string
  /** Lists them. */
  readonly command: string
}

async function findId(
  { client, signal }: SandboxServerContext,
  wanted: string,
  { operation, what, plural, command }: Listed,
): Promise<string> {
  const list = (page_id: string | undefined) =>
    client.call(operation, { query: { limit: '100', page_id }, signal })
  const id = await findNamed(list, wanted, plural)
  if (id !== undefined) return id
  const shown = sanitizeLine(wanted)
  throw new Problem('not_found', `There is no ${what} ${shown}. "slipway ${command}" lists them.`)
}

interface NamedPage {
  readonly items: readonly { readonly id: string; readonly name: string | null }[]
  readonly next_page_id: string | null
}

/** Undefined when there is none of the id or name. */
async function findNamed(
  list: (page_id: string | undefined) => Promise<NamedPage>,
  wanted: string,
  plural: string,
): Promise<string | undefined> {
  const named: string[] = []
  let page_id: string | undefined
  do {
    const { items, next_page_id } = await list(page_id)
    if (items.some(({ id }) => id === wanted)) return wanted
    named.push(...items.filter(({ name }) => name === wanted).map(({ id }) => id))
    page_id = next_page_id ?? undefined
  } while (page_id !== undefined)
  if (named.length < 2) return named[0]
  throw new Problem('conflict', `Several ${plural} are named ${sanitizeLine(wanted)}: ${named.join(', ')}`)
}
