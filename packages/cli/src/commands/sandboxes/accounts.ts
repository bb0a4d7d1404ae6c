import { randomBytes } from 'node:crypto'
import { CallError, ConnectionError } from '@slipway/client'
import type { QuotaStatus } from '@slipway/protocol'
import { Problem, unlimited } from '@slipway/protocol/client'
import type { SandboxServerContext } from '../../context/command-context.ts'
import { findOrgId, findUserId, isUserNamed } from '../../context/find-user.ts'
import { askYesOrNo, isInteractive } from '../../conversation/confirmation-prompt.ts'
import { relativeTime } from '../../output/relative-time.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'
import type { Limit } from '../../parsing/limit.ts'

const mebibyte = 1024 * 1024

export interface LimitFlags {
  readonly perDay?: Limit
  readonly conversations?: Limit
  readonly storedMb?: Limit
  readonly sandboxes?: Limit
}

/** Lists the users of a sandbox server; administrators may. */
export async function listUsersCommand({ client, isJson, signal }: SandboxServerContext): Promise<void> {
  let page_id: string | undefined
  let isFirst = true
  do {
    const page = await client.call('listUsers', { query: { limit: '100', page_id }, signal })
    const rows = page.items.map(({ id, name, email, is_admin, daily_conversation_limit }) => [
      sanitizeLine(id),
      is_admin ? 'admin' : '',
      formatOwnLimit(daily_conversation_limit),
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
  context: SandboxServerContext,
  name: string,
  options: { readonly email?: string; readonly admin: boolean; readonly org?: string } & LimitFlags,
): Promise<void> {
  const { client, isJson, signal } = context
  const { email, admin: is_admin, org } = options
  const org_id = org === undefined ? undefined : await findOrgId(context, org)
  // Commands name users, and a name of two names none.
  if (await isUserNamed(context, name))
    throw new Problem(
      'conflict',
      `There is a user ${sanitizeLine(name)} already. "slipway users" lists them.`,
    )
  const { daily_conversation_limit = null, ...limits } = toBody(options)
  const user = await client.call('createUser', {
    body: { name, email, org_id, is_admin, daily_conversation_limit },
    signal,
  })
  const params = { user_id: user.id }
  // Before there is a key: the user never works without these limits.
  if (hasLimit(limits)) await client.call('setUserQuota', { params, body: limits, signal })
  const { key } = await client.call('createUserKey', {
    params,
    body: { name: 'first', scopes: ['read', 'write'] },
    signal,
  })
  await printResult(isJson, { ...user, key }, key)
  if (!isJson)
    printNote(`The key of ${sanitizeLine(name)} (${sanitizeLine(user.id)}); it is not shown again.`)
}

interface UserFlags {
  readonly name?: string
  readonly email?: string
  /** By id or name; `none`: of none. */
  readonly org?: string
}

/** Changes a user, named by id or name; what is not named stays. */
export async function setUserCommand(
  context: SandboxServerContext,
  user: string,
  { name, email, org }: UserFlags,
): Promise<void> {
  const { client, isJson, signal } = context
  if (name === undefined && email === undefined && org === undefined)
    throw new Problem('bad_request', 'Name what to change: --name, --email or --org.')
  const params = { user_id: await findUserId(context, user) }
  const org_id = org === undefined ? undefined : org === 'none' ? null : await findOrgId(context, org)
  const changed = await client.call('patchUser', { params, body: { name, email, org_id }, signal })
  await printResult(isJson, changed, 'changed')
}

/** Revokes the keys of a user, named by id or name, then removes the user unless work of the user is left. */
export async function removeUserCommand(
  context: SandboxServerContext,
  user: string,
  { withSandboxes }: { readonly withSandboxes: boolean },
): Promise<void> {
  const { client, isJson, signal } = context
  const id = await findUserId(context, user)
  const query = withSandboxes ? { with_sandboxes: 'true' } : {}
  await client.call('deleteUser', { params: { user_id: id }, query, signal }).catch((error: unknown) => {
    throw explainRemainingWork(error, user)
  })
  await printResult(isJson, { user_id: id, status: 'removed' }, 'removed')
}

interface OfUser {
  /** By id or name; the caller unless given. */
  readonly user?: string
}

/** Asks, deletes all data of a user, named by id or name, and prints the certificate. */
export async function eraseUserCommand(
  context: SandboxServerContext,
  user: string,
  { yes }: { readonly yes: boolean },
): Promise<void> {
  const { client, isJson, signal } = context
  // The id of a user who is erased already, or the pseudonym, is in no list.
  const isListed = !isUuid(user) && !user.startsWith('erased-')
  const user_id = isListed ? await findUserId(context, user) : user
  const shown = [...new Set([user, user_id])].map(sanitizeLine).join(', ')
  const question = `Delete all data of ${shown}? It cannot be undone.`
  if (!(yes || (isInteractive() && (await askYesOrNo(question, signal)))))
    throw new Problem(
      'conflict',
      `Nothing was erased. Erase it with: slipway users erase ${sanitizeLine(user_id)} --yes`,
    )
  if (!isJson) printNote(`After an interruption repeat: slipway users erase ${sanitizeLine(user_id)} --yes`)
  const erasure = await client.call('eraseUser', { params: { user_id }, signal })
  if (isJson) return await print(`${JSON.stringify(erasure)}\n`)
  const counts = Object.entries(erasure.counts).map(([kind, count]) => [
    sanitizeLine(kind).replaceAll('_', ' '),
    String(count),
  ])
  const rows = [
    ['erased', sanitizeLine(String(erasure.erased_at))],
    ['pseudonym', sanitizeLine(erasure.user)],
    ...counts,
    ['digest', sanitizeLine(erasure.digest)],
  ]
  await print(table(rows, [18]))
}

function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)
}

/** Lists the API keys of the caller, or of a user. */
export async function listKeysCommand(context: SandboxServerContext, { user }: OfUser): Promise<void> {
  const { client, isJson, signal } = context
  const keys =
    user === undefined
      ? await client.call('listApiKeys', { signal })
      : await client.call('listUserKeys', { params: { user_id: await findUserId(context, user) }, signal })
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

/** Makes an API key of the caller, or of a user; it is shown once. */
export async function addKeyCommand(
  context: SandboxServerContext,
  name: string,
  options: { readonly readOnly: boolean; readonly expires?: string; readonly org?: string } & OfUser,
): Promise<void> {
  const { client, signal } = context
  const scopes = options.readOnly ? (['read'] as const) : (['read', 'write'] as const)
  const { user, org, expires: expires_at } = options
  const org_id = org === undefined ? undefined : await findOwnOrgId(context, org)
  const body = { name, scopes: [...scopes], expires_at, org_id }
  const created =
    user === undefined
      ? await client.call('createApiKey', { body, signal })
      : await client.call('createUserKey', {
          params: { user_id: await findUserId(context, user) },
          body,
          signal,
        })
  await printNewKey(context, created)
}

/** Of an organisation in which the caller works, or else of one of all, for administrators. */
async function findOwnOrgId(context: SandboxServerContext, org: string): Promise<string> {
  const { items } = await context.client.call('listOwnOrganizations', { signal: context.signal })
  return items.find(({ id, name }) => id === org || name === org)?.id ?? (await findOrgId(context, org))
}

async function printNewKey(
  { isJson }: SandboxServerContext,
  created: { readonly id: string; readonly key: string },
): Promise<void> {
  await printResult(isJson, created, created.key)
  if (!isJson) printNote(`Its id is ${sanitizeLine(created.id)}; the key is not shown again.`)
}

/** Replaces an API key of the caller, or of a user; the new one is shown once. */
export async function rotateKeyCommand(
  context: SandboxServerContext,
  id: string,
  { grace = 0, user }: { readonly grace?: number } & OfUser,
): Promise<void> {
  const { client, signal } = context
  const key = `sk-slipway-${randomBytes(32).toString('base64url')}`
  const body = { grace_seconds: Math.floor(grace / 1000), key }
  const params = { key_id: id }
  const user_id = user === undefined ? undefined : await findUserId(context, user)
  const rotating =
    user_id === undefined
      ? client.call('rotateApiKey', { params, body, signal })
      : client.call('rotateUserKey', { params: { ...params, user_id }, body, signal })
  const created = await rotating.catch((error: unknown) => {
    if (error instanceof ConnectionError)
      printNote(`The answer was lost. If the old key has ended, the new one is ${key}`)
    throw error
  })
  await printNewKey(context, created)
}

/** Revokes an API key of the caller, or of a user. */
export async function removeKeyCommand(
  context: SandboxServerContext,
  id: string,
  { user }: OfUser,
): Promise<void> {
  const { client, isJson, signal } = context
  const params = { key_id: id }
  if (user === undefined) await client.call('deleteApiKey', { params, signal })
  else
    await client.call('deleteUserKey', {
      params: { ...params, user_id: await findUserId(context, user) },
      signal,
    })
  await printResult(isJson, { key_id: id, status: 'removed' }, 'removed')
}

/** Shows the limits of the caller, or of a user by id or name, and what is used of them. */
export async function quotaCommand(context: SandboxServerContext, user?: string): Promise<void> {
  const { client, isJson, signal } = context
  const params = user === undefined ? undefined : { user_id: await findUserId(context, user) }
  const status =
    params === undefined
      ? await client.call('quotaStatus', { signal })
      : await client.call('getUserQuota', { params, signal })
  await (isJson ? print(`${JSON.stringify(status)}\n`) : print(quotaTable(status)))
}

/** The limits of a user, and what is used of them. */
export function quotaTable({ daily_limit, used_today, reset_at, ...status }: QuotaStatus): string {
  const { conversations, stored_bytes, sandboxes } = status
  const reset = daily_limit === null ? [] : [`again at ${String(reset_at).slice(0, 16)}Z`]
  const source = limitSources[status.daily_limit_source]
  const why = [...reset, ...(source === undefined ? [] : [source])].join(', ')
  const [exempt] = status.unlimited_org_ids
  const hint =
    exempt === undefined
      ? ''
      : `\nNo daily limit in the organisation ${sanitizeLine(exempt)}: use a key that is bound to it.\n`
  const megabytes = (bytes: number) => Number((bytes / mebibyte).toFixed(1))
  const storedLimit = stored_bytes.limit === null ? null : megabytes(stored_bytes.limit)
  const rows = [
    ['conversations today', String(used_today), formatLimit(daily_limit), why],
    ['conversations stored', String(conversations.used), formatLimit(conversations.limit), ''],
    ['MB of events stored', String(megabytes(stored_bytes.used)), formatLimit(storedLimit), ''],
    ['running sandboxes', String(sandboxes.used), formatLimit(sandboxes.limit), ''],
  ]
  return `${table(rows, [22, 10, 12], ['', 'USED', 'LIMIT', ''])}${hint}`
}

const limitSources = {
  user: 'set for the user',
  organization: 'set for the organisation',
  exempt_organizations: 'the organisation is exempt',
  server: undefined,
} as const

/** As the API has it: null inherits. */
export function toMember(limit: Limit | undefined): number | null | undefined {
  return limit === 'default' ? null : limit
}

function toBody({ perDay, conversations, storedMb, sandboxes }: LimitFlags) {
  return {
    daily_conversation_limit: toMember(perDay),
    max_conversations: toMember(conversations),
    max_stored_mb: toMember(storedMb),
    max_sandboxes: toMember(sandboxes),
  }
}

function hasLimit(body: Readonly<Record<string, number | null | undefined>>): boolean {
  return Object.values(body).some((value) => value !== undefined)
}

/** Null inherits. */
export function formatOwnLimit(limit: number | null): string {
  return limit === null ? 'default' : formatLimit(limit)
}

function formatLimit(limit: number | null): string {
  return limit === null || limit === unlimited ? 'unlimited' : String(limit)
}

/** A refusal because of what is left of the user says how to delete it; any other error is unchanged. */
function explainRemainingWork(error: unknown, user: string): unknown {
  if (!(error instanceof CallError) || error.status !== 409 || !error.detail.includes('with_sandboxes'))
    return error
  const command = `slipway users rm ${sanitizeLine(user)} --with-sandboxes`
  return new Problem('conflict', `${sanitizeLine(error.detail)}\nDelete all of it with: ${command}`)
}

/** Sets limits of a user, named by id or name; those that are not named stay. */
export async function setQuotaCommand(
  context: SandboxServerContext,
  user: string,
  options: LimitFlags,
): Promise<void> {
  const { client, isJson, signal } = context
  const id = await findUserId(context, user)
  const body = toBody(options)
  if (!hasLimit(body))
    throw new Problem('bad_request', 'Name a limit: --per-day, --conversations, --stored-mb or --sandboxes.')
  const params = { user_id: id }
  const quota = await client.call('setUserQuota', { params, body, signal })
  if (isJson) return await print(`${JSON.stringify(quota)}\n`)
  await print(quotaTable(await client.call('getUserQuota', { params, signal })))
}
