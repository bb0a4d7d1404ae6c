import type { Handlers } from '@slipway/http'
import { Problem, type sandboxServerRoutes } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage/control-plane'
import { getCaller, getCallingSandbox } from '../auth/authenticator.ts'
import type { Accounts } from './accounts.ts'
import { checkProviderHost } from './git-repository.ts'
import type { LookupSecrets } from './lookup-secrets.ts'

/** Secrets of users. Only a running sandbox of the same user gets values, and only of granted ones. */
export function secretHandlers(deps: { readonly accounts: Accounts; readonly lookupSecrets: LookupSecrets }) {
  const { userSecrets, gitProviders } = deps.accounts
  return {
    async searchSecrets(request) {
      const { limit, page_id, name__contains } = request.query
      const needle = name__contains?.toLowerCase() ?? ''
      const found = (await userSecrets.list(ownerOf(request))).filter(
        ({ name }) => name.toLowerCase().includes(needle) && (page_id === undefined || name > page_id),
      )
      const items = found.slice(0, limit)
      const shown = items.map(({ name, description }) => ({ name, description: description ?? '' }))
      return {
        json: { items: shown, next_page_id: found.length > limit ? (items.at(-1)?.name ?? null) : null },
      }
    },
    async createSecret(request) {
      const { name, value, description } = request.body
      await userSecrets.save(name, { value, description }, ownerOf(request), { keepsDescription: true })
      return { status: 201, json: { message: 'The secret is set.' } }
    },
    async renameSecret(request) {
      await userSecrets.rename(request.params.name, request.body, ownerOf(request))
      return { json: { message: 'The secret is changed.' } }
    },
    async deleteSecret(request) {
      if (!(await userSecrets.remove(request.params.name, ownerOf(request)))) throw secretNotFound()
      return { json: { message: 'The secret is deleted.' } }
    },
    async setGitProviders(request) {
      const { provider_tokens } = request.body
      for (const [name, { host }] of Object.entries(provider_tokens)) checkProviderHost(name, host)
      await gitProviders.update(ownerOf(request), provider_tokens)
      return { json: { message: 'The tokens are stored.' } }
    },
    async deleteGitProviders(request) {
      await gitProviders.removeAll(ownerOf(request))
      return { json: { message: 'The tokens are deleted.' } }
    },
    async listSandboxSecrets(request) {
      const sandbox = requireRunning(getCallingSandbox(request), request.params.sandbox_id)
      return { json: { secrets: await deps.lookupSecrets.list(sandbox) } }
    },
    async getSandboxSecret(request) {
      const { sandbox_id, name } = request.params
      const sandbox = requireRunning(getCallingSandbox(request), sandbox_id)
      const value = await deps.lookupSecrets.getValue(sandbox, name)
      if (value === undefined) throw secretNotFound()
      return { bytes: Buffer.from(value), contentType: 'text/plain; charset=utf-8' }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

const ownerOf = (request: Parameters<typeof getCaller>[0]) => getCaller(request).owner ?? ''

function secretNotFound(): Problem {
  return new Problem('not_found', 'There is no such secret')
}

/** Wire 1.2: 401 when the sandbox does not run or has no owner, 403 for the key of another sandbox. */
function requireRunning(row: SandboxRow, id: string): SandboxRow {
  if (row.status !== 'RUNNING' || row.owner === null) {
    throw new Problem('unauthorized', 'Only a running sandbox may read secrets')
  }
  if (row.id !== id) throw new Problem('forbidden', 'This is the key of another sandbox')
  return row
}
