import { Problem } from '@slipway/protocol'
import type { SandboxServerContext } from '../../context/command-context.ts'
import { relativeTime } from '../../output/relative-time.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

/** Lists the users of a sandbox server; administrators may. */
export async function listUsersCommand({ client, isJson, signal }: SandboxServerContext): Promise<void> {
  let page_id: string | undefined
  let isFirst = true
  do {
    const page = await client.call('listUsers', { query: { limit: '100', page_id }, signal })
    const rows = page.items.map(({ id, name, email, is_admin, daily_conversation_limit }) => [
      sanitizeLine(id),
      is_admin ? 'admin' : '',
      String(daily_conversation_limit ?? 'unlimited'),
      sanitizeLine([name, email].filter((part) => part !== null).join(', ')),
    ])
    if (isJson) await print(page.items.map((item) => `${JSON.stringify(item)}\n`).join(''))
    else await print(table(rows, [38, 7, 11], isFirst ? ['ID', '', 'PER DAY', 'NAME'] : undefined))
    isFirst = false
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
}

/** Adds a user and makes the first key of the user, which is shown once. */
export async function addUserCommand(
  { client, isJson, signal }: SandboxServerContext,
  name: string,
  options: { readonly email?: string; readonly admin: boolean; readonly perDay?: number },
): Promise<void> {
  const { email, admin: is_admin, perDay: daily_conversation_limit } = options
  const user = await client.call('createUser', {
    body: { name, email, is_admin, daily_conversation_limit: daily_conversation_limit ?? null },
    signal,
  })
  const params = { user_id: user.id }
  const { key } = await client.call('createUserKey', {
    params,
    body: { name: 'first', scopes: ['read', 'write'] },
    signal,
  })
  await printResult(isJson, { ...user, key }, key)
  if (!isJson)
    printNote(`The key of ${sanitizeLine(name)} (${sanitizeLine(user.id)}); it is not shown again.`)
}

/** Removes a user, named by id or name, and the keys of the user. */
export async function removeUserCommand(context: SandboxServerContext, user: string): Promise<void> {
  const { client, isJson, signal } = context
  const id = await findUserId(context, user)
  await client.call('deleteUser', { params: { user_id: id }, signal })
  await printResult(isJson, { user_id: id, status: 'removed' }, 'removed')
}

/** Lists the caller's API keys. */
export async function listKeysCommand({ client, isJson, signal }: SandboxServerContext): Promise<void> {
  const keys = await client.call('listApiKeys', { signal })
  if (isJson) return await print(keys.map((key) => `${JSON.stringify(key)}\n`).join(''))
  const rows = keys.map(({ id, name, scopes, last_used_at, expires_at }) => [
    sanitizeLine(id),
    scopes.join(','),
    last_used_at === null ? 'never' : relativeTime(String(last_used_at)),
    expires_at === null ? 'never' : sanitizeLine(String(expires_at)).slice(0, 10),
    sanitizeLine(name ?? ''),
  ])
  await print(table(rows, [38, 16, 12, 12], ['ID', 'SCOPES', 'USED', 'EXPIRES', 'NAME']))
}

/** Makes an API key of the caller; it is shown once. */
export async function addKeyCommand(
  { client, isJson, signal }: SandboxServerContext,
  name: string,
  options: { readonly readOnly: boolean; readonly expires?: string },
): Promise<void> {
  const scopes = options.readOnly ? (['read'] as const) : (['read', 'write'] as const)
  const body = { name, scopes: [...scopes], expires_at: options.expires }
  const created = await client.call('createApiKey', { body, signal })
  await printResult(isJson, created, created.key)
  if (!isJson) printNote(`Its id is ${sanitizeLine(created.id)}; the key is not shown again.`)
}

/** Revokes an API key of the caller. */
export async function removeKeyCommand(
  { client, isJson, signal }: SandboxServerContext,
  id: string,
): Promise<void> {
  await client.call('deleteApiKey', { params: { key_id: id }, signal })
  await printResult(isJson, { key_id: id, status: 'removed' }, 'removed')
}

/** Shows what the caller has used of the limits. */
export async function quotaCommand({ client, isJson, signal }: SandboxServerContext): Promise<void> {
  const status = await client.call('quotaStatus', { signal })
  if (isJson) return await print(`${JSON.stringify(status)}\n`)
  const { used_today, daily_limit, reset_at } = status
  const limit =
    daily_limit === null ? 'no limit' : `of ${daily_limit}, again at ${String(reset_at).slice(0, 16)}`
  await print(`conversations today: ${used_today}, ${limit}\n`)
}

/** Sets limits of a user, named by id or name; those that are not named stay. */
export async function setQuotaCommand(
  context: SandboxServerContext,
  user: string,
  options: { readonly perDay?: number; readonly conversations?: number; readonly storedMb?: number },
): Promise<void> {
  const { client, isJson, signal } = context
  const id = await findUserId(context, user)
  const body = {
    daily_conversation_limit: options.perDay,
    max_conversations: options.conversations,
    max_stored_mb: options.storedMb,
  }
  const quota = await client.call('setUserQuota', { params: { user_id: id }, body, signal })
  await printResult(isJson, quota, JSON.stringify(quota))
}

/** The id of the user with this id or, when only one has it, this name. */
async function findUserId({ client, signal }: SandboxServerContext, user: string): Promise<string> {
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
