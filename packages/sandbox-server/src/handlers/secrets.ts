import type { Handlers } from '@slipway/http'
import { Problem, type sandboxServerRoutes } from '@slipway/protocol'
import { ownMember } from '@slipway/shared/json'
import type { SandboxRow } from '@slipway/storage'
import type { Accounts } from '../accounts/accounts.ts'
import { getCaller, getCallingSandbox } from '../auth/authenticator.ts'
import { checkProviderHost } from '../start/git-repository.ts'

type Routes = Pick<
  typeof sandboxServerRoutes,
  | 'searchSecrets'
  | 'createSecret'
  | 'renameSecret'
  | 'deleteSecret'
  | 'setGitProviders'
  | 'deleteGitProviders'
  | 'listSandboxSecrets'
  | 'getSandboxSecret'
>

const tokenSuffix = '_token'

/** Secrets of users. Only a running sandbox of the same user gets values. */
export function secretHandlers({
  accounts: { userSecrets, gitProviders },
}: {
  readonly accounts: Accounts
}): Handlers<Routes> {
  return {
    async searchSecrets(request) {
      const { limit, page_id, name__contains } = request.query
      const needle = name__contains?.toLowerCase() ?? ''
      const found = (await userSecrets.list(getCaller(request).owner))
        .filter(
          ({ name }) => name.toLowerCase().includes(needle) && (page_id === undefined || name > page_id),
        )
        .sort((a, b) => (a.name < b.name ? -1 : 1))
      const items = found.slice(0, limit)
      return { json: { items, next_page_id: found.length > limit ? (items.at(-1)?.name ?? null) : null } }
    },
    async createSecret(request) {
      const { name, value, description } = request.body
      await userSecrets.save(getCaller(request).owner, name, { value, description })
      return { status: 201, json: { message: 'The secret is set.' } }
    },
    async renameSecret(request) {
      await userSecrets.rename(getCaller(request).owner, request.params.name, request.body)
      return { json: { message: 'The secret is changed.' } }
    },
    async deleteSecret(request) {
      await userSecrets.remove(getCaller(request).owner, request.params.name)
      return { json: { message: 'The secret is deleted.' } }
    },
    async setGitProviders(request) {
      const { provider_tokens } = request.body
      for (const [name, { host }] of Object.entries(provider_tokens)) checkProviderHost(name, host)
      await gitProviders.update(getCaller(request).owner, provider_tokens)
      return { json: { message: 'The tokens are stored.' } }
    },
    async deleteGitProviders(request) {
      await gitProviders.removeAll(getCaller(request).owner)
      return { json: { message: 'The tokens are deleted.' } }
    },
    async listSandboxSecrets(request) {
      const { owner } = requireRunning(getCallingSandbox(request), request.params.sandbox_id)
      const tokens = Object.entries(await gitProviders.read(owner)).filter(([, { token }]) => token)
      const secrets = [
        ...(await userSecrets.list(owner)),
        ...tokens.map(([name]) => ({ name: name + tokenSuffix, description: `Token of ${name}` })),
      ]
      return { json: { secrets } }
    },
    async getSandboxSecret(request) {
      const { sandbox_id, name } = request.params
      const { owner } = requireRunning(getCallingSandbox(request), sandbox_id)
      const provider = name.endsWith(tokenSuffix) ? name.slice(0, -tokenSuffix.length) : ''
      const value =
        (await userSecrets.getValue(owner, name)) ??
        ownMember(await gitProviders.read(owner), provider)?.token
      if (value === undefined) throw new Problem('not_found', 'There is no such secret')
      return { bytes: Buffer.from(value), contentType: 'text/plain; charset=utf-8' }
    },
  }
}

/** Wire 1.2: 401 when the sandbox does not run or has no owner, 403 for the key of another sandbox. */
function requireRunning(row: SandboxRow, id: string): SandboxRow {
  if (row.status !== 'RUNNING' || row.owner === null) {
    throw new Problem('unauthorized', 'Only a running sandbox may look secrets up')
  }
  if (row.id !== id) throw new Problem('forbidden', 'This is the key of another sandbox')
  return row
}
