import { Problem } from '@slipway/protocol/client'
import { sanitizeLine } from '../output/sanitize.ts'
import type { SandboxServerContext } from './command-context.ts'

/** The id of the user with this id or, when only one has it, this name. */
export function findUserId(context: SandboxServerContext, user: string): Promise<string> {
  return findId(context, user, { operation: 'listUsers', what: 'user', plural: 'users', command: 'users' })
}

/** The id of the organisation with this id or, when only one has it, this name. */
export function findOrgId(context: SandboxServerContext, org: string): Promise<string> {
  const about = { what: 'organisation', plural: 'organisations', command: 'orgs' } as const
  return findId(context, org, { operation: 'listOrganizations', ...about })
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
  const named: string[] = []
  let page_id: string | undefined
  do {
    const page = await client.call(operation, { query: { limit: '100', page_id }, signal })
    const items: readonly { readonly id: string; readonly name: string | null }[] = page.items
    if (items.some(({ id }) => id === wanted)) return wanted
    named.push(...items.filter(({ name }) => name === wanted).map(({ id }) => id))
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
  const [id] = named
  if (id !== undefined && named.length === 1) return id
  const shown = sanitizeLine(wanted)
  if (id === undefined)
    throw new Problem('not_found', `There is no ${what} ${shown}. "slipway ${command}" lists them.`)
  throw new Problem('conflict', `Several ${plural} are named ${shown}: ${named.join(', ')}`)
}
