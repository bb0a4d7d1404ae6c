import type { Handlers } from '@slipway/http'
import { Problem, type sandboxServerRoutes } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage'
import { type Accounts, ownMember } from '../accounts/accounts.ts'
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

/** More than this is no list of secrets. */
const maxSecrets = 1000
const tokenSuffix = '_token'

/** Secrets of users. Values are answered to sandboxes of the same user alone. */
export function secretHandlers({ accounts }: { readonly accounts: Accounts }): Handlers<Routes> {
  return {
    async searchSecrets(request) {
      const { limit, page_id, name__contains } = request.query
      const needle = name__contains?.toLowerCase() ?? ''
      const stored = Object.entries(await accounts.getStoredSecrets(getCaller(request).owner))
        .map(([name, { description }]) => ({ name, description: description ?? null }))
        .filter(
          ({ name }) => name.toLowerCase().includes(needle) && (page_id === undefined || name > page_id),
        )
        .sort((a, b) => (a.name < b.name ? -1 : 1))
      const items = stored.slice(0, limit)
      return { json: { items, next_page_id: stored.length > limit ? (items.at(-1)?.name ?? null) : null } }
    },
    async createSecret(request) {
      const { name, value, description } = request.body
      await accounts.updateSecrets(getCaller(request).owner, (old) => {
        if (ownMember(old, name) === undefined && Object.keys(old).length >= maxSecrets) {
          throw new Problem('conflict', `There are ${maxSecrets} secrets already`)
        }
        return { ...old, [name]: { value, ...(description === undefined ? {} : { description }) } }
      })
      return { status: 201, json: { message: 'The secret is set.' } }
    },
    async renameSecret(request) {
      const { name } = request.params
      const { name: newName, description } = request.body
      await accounts.updateSecrets(getCaller(request).owner, (old) => {
        const stored = ownMember(old, name)
        if (stored === undefined) throw new Problem('not_found', 'There is no such secret')
        if (newName !== name && ownMember(old, newName) !== undefined) {
          throw new Problem('bad_request', 'There is a secret of that name already')
        }
        const { [name]: _, ...others } = old
        return { ...others, [newName]: { ...stored, ...(description === undefined ? {} : { description }) } }
      })
      return { json: { message: 'The secret is changed.' } }
    },
    async deleteSecret(request) {
      const { name } = request.params
      await accounts.updateSecrets(getCaller(request).owner, (old) => {
        if (ownMember(old, name) === undefined) throw new Problem('not_found', 'There is no such secret')
        const { [name]: _, ...others } = old
        return others
      })
      return { json: { message: 'The secret is deleted.' } }
    },
    async setGitProviders(request) {
      const { provider_tokens } = request.body
      for (const [name, { host }] of Object.entries(provider_tokens)) checkProviderHost(name, host)
      await accounts.updateProviders(getCaller(request).owner, provider_tokens)
      return { json: { message: 'The tokens are stored.' } }
    },
    async deleteGitProviders(request) {
      await accounts.updateProviders(getCaller(request).owner, undefined)
      return { json: { message: 'The tokens are deleted.' } }
    },
    async listSandboxSecrets(request) {
      const { owner } = requireRunning(getCallingSandbox(request), request.params.sandbox_id)
      const stored = Object.entries(await accounts.getStoredSecrets(owner))
      const tokens = Object.entries(await accounts.getProviders(owner)).filter(([, { token }]) => token)
      const secrets = [
        ...stored.map(([name, { description }]) => ({ name, description: description ?? null })),
        ...tokens.map(([name]) => ({ name: name + tokenSuffix, description: `Token of ${name}` })),
      ]
      return { json: { secrets } }
    },
    async getSandboxSecret(request) {
      const { sandbox_id, name } = request.params
      const { owner } = requireRunning(getCallingSandbox(request), sandbox_id)
      const stored = ownMember(await accounts.getStoredSecrets(owner), name)?.value
      const provider = name.endsWith(tokenSuffix) ? name.slice(0, -tokenSuffix.length) : ''
      const value = stored ?? ownMember(await accounts.getProviders(owner), provider)?.token
      if (value === undefined) throw new Problem('not_found', 'There is no such secret')
      return { bytes: Buffer.from(value), contentType: 'text/plain; charset=utf-8' }
    },
  }
}

/** Wire 1.2: 401 when the sandbox does not run or is nobody's, 403 when the key is that of another one. */
function requireRunning(row: SandboxRow, id: string): SandboxRow {
  if (row.status !== 'RUNNING' || row.owner === null) {
    throw new Problem('unauthorized', 'Only a running sandbox may look secrets up')
  }
  if (row.id !== id) throw new Problem('forbidden', 'This is the key of another sandbox')
  return row
}
