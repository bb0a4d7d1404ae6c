import type { SandboxServerContext } from '../../context/command-context.ts'
import { findOrgId } from '../../context/find-user.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printResult, table } from '../../output/terminal.ts'
import { buildServer, type NewMcpServer, readVariable } from '../settings/mcp.ts'

export interface ShareModelFlags {
  readonly model: string
  readonly baseUrl?: string
  readonly keyEnv?: string
  readonly default: boolean
}

/** Lists what an organisation shares; no secret is shown. */
export async function listSharedCommand(context: SandboxServerContext, org: string): Promise<void> {
  const { client, isJson, signal } = context
  const params = { org_id: await findOrgId(context, org) }
  const { profiles, active_profile } = await client.call('listSharedProfiles', { params, signal })
  const { items } = await client.call('listSharedMcpServers', { params, signal })
  if (isJson) return await print(`${JSON.stringify({ profiles, active_profile, mcp_servers: items })}\n`)
  const models = profiles.map(({ name, model, base_url }) => [
    'model',
    sanitizeLine(name),
    name === active_profile ? 'default' : '',
    sanitizeLine([model, base_url].filter((part) => part !== null).join(' at ')),
  ])
  const servers = items.map(({ name, server }) => [
    'mcp',
    sanitizeLine(name),
    '',
    sanitizeLine(server?.url ?? [server?.command ?? '', ...(server?.args ?? [])].join(' ')),
  ])
  await print(table([...models, ...servers], [7, 24, 9], ['KIND', 'NAME', '', 'WHAT']))
}

/** Shares a model, and makes it that of members who have set none. */
export async function shareModelCommand(
  context: SandboxServerContext,
  org: string,
  name: string,
  flags: ShareModelFlags & Pick<NewMcpServer, 'env'>,
): Promise<void> {
  const { client, isJson, signal } = context
  const { model, baseUrl: base_url, keyEnv, env } = flags
  const api_key = keyEnv === undefined ? undefined : readVariable(env, keyEnv)
  const params = { org_id: await findOrgId(context, org), name }
  await client.call('saveSharedProfile', { params, body: { llm: { model, base_url, api_key } }, signal })
  if (flags.default) await client.call('activateSharedProfile', { params, signal })
  await printResult(isJson, { ...params, status: 'shared' }, 'shared')
}

export async function shareMcpCommand(
  context: SandboxServerContext,
  org: string,
  name: string,
  server: NewMcpServer,
): Promise<void> {
  const { client, isJson, signal } = context
  const params = { org_id: await findOrgId(context, org), name }
  await client.call('saveSharedMcpServer', { params, body: buildServer(server), signal })
  await printResult(isJson, { ...params, status: 'shared' }, 'shared')
}

export async function unshareCommand(
  context: SandboxServerContext,
  org: string,
  kind: 'model' | 'mcp',
  name: string,
): Promise<void> {
  const { client, isJson, signal } = context
  const params = { org_id: await findOrgId(context, org), name }
  const operation = kind === 'model' ? 'deleteSharedProfile' : 'deleteSharedMcpServer'
  await client.call(operation, { params, signal })
  await printResult(isJson, { ...params, status: 'removed' }, 'removed')
}
