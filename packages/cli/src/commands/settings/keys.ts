import type { KeyScope } from '@slipway/protocol'
import type { CommandContext } from '../../context/command-context.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

/** Lists the keys with scopes of an agent server. */
export async function listScopedKeysCommand({ client, isJson, signal }: CommandContext): Promise<void> {
  const keys = await client.call('listKeys', { signal })
  if (isJson) return await print(keys.map((key) => `${JSON.stringify(key)}\n`).join(''))
  const rows = keys.map(({ id, name, scopes, conversation_id, expires_at }) => [
    sanitizeLine(id),
    scopes.join(','),
    conversation_id === null ? 'all' : sanitizeLine(conversation_id).slice(0, 8),
    expires_at === null ? 'never' : sanitizeLine(String(expires_at)).slice(0, 10),
    sanitizeLine(name),
  ])
  await print(table(rows, [38, 18, 14, 12], ['ID', 'SCOPES', 'CONVERSATION', 'EXPIRES', 'NAME']))
}

/** Makes a key with scopes; it is shown once. */
export async function addScopedKeyCommand(
  { client, isJson, signal }: CommandContext,
  name: string,
  options: {
    readonly scopes: readonly KeyScope[]
    readonly conversation?: string | undefined
    readonly expires?: string | undefined
  },
): Promise<void> {
  const { scopes, conversation: conversation_id, expires: expires_at } = options
  const body = { name, scopes: [...scopes], conversation_id, expires_at }
  const created = await client.call('createKey', { body, signal })
  await printResult(isJson, created, created.key)
  if (!isJson) printNote(`Its id is ${sanitizeLine(created.id)}; the key is not shown again.`)
}

/** Revokes a key with scopes. */
export async function removeScopedKeyCommand(
  { client, isJson, signal }: CommandContext,
  id: string,
): Promise<void> {
  await client.call('deleteKey', { params: { key_id: id }, signal })
  await printResult(isJson, { key_id: id, status: 'removed' }, 'removed')
}
