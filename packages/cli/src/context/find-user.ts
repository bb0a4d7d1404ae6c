import { Problem } from '@slipway/protocol/client'
import { sanitizeLine } from '../output/sanitize.ts'
import type { SandboxServerContext } from './command-context.ts'

/** The id of the user with this id or, when only one has it, this name. */
export async function findUserId({ client, signal }: SandboxServerContext, user: string): Promise<string> {
  const named: string[] = []
  let page_id: string | undefined
  do {
    const page = await client.call('listUsers', { query: { limit: '100', page_id }, signal })
    if (page.items.some(({ id }) => id === user)) return user
    named.push(...page.items.filter(({ name }) => name === user).map(({ id }) => id))
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
  const [id] = named
  if (id !== undefined && named.length === 1) return id
  if (id === undefined)
    throw new Problem('not_found', `There is no user ${sanitizeLine(user)}. "slipway users" lists them.`)
  throw new Problem('conflict', `Several users are named ${sanitizeLine(user)}: ${named.join(', ')}`)
}
