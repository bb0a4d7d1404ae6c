import type { Handlers } from '@slipway/http'
import { type agentServerRoutes, Problem } from '@slipway/protocol'
import type { Storage } from '@slipway/storage'
import type { ConversationRegistry } from '../../core/conversations/registry.ts'
import { readSecretNames, readStoredRequest } from '../../core/conversations/stored-request.ts'
import { type BindingTarget, boundSecret, type CredentialBindings } from './credential-bindings.ts'
import { CredentialSource } from './credential-source.ts'

/** Binds credentials of external agents to their sources. */
export function credentialBindingHandlers(options: {
  readonly bindings: CredentialBindings
  readonly storage: Storage
  readonly registry: ConversationRegistry
  readonly fetch: typeof fetch
}) {
  const { bindings, storage, registry, fetch } = options
  const findTarget = async (id: string): Promise<BindingTarget | undefined> => {
    const [record] = await storage.conversations.get([id])
    if (record === undefined) return undefined
    return {
      agent: readStoredRequest(record).agent,
      secretNames: readSecretNames(record),
      hasBegun: async () => (await registry.peek(id))?.hasExternalSession === true,
      removeSecret: async (name) => await (await registry.load(record))?.removeSecret(name),
    }
  }
  return {
    async activateCredentialBinding({ params, body, signal }) {
      if (params.secret_name !== boundSecret) throw new Problem('not_found', 'Not Found')
      const source = new CredentialSource({ ...body, fetch })
      await source.load(signal)
      const id = params.conversation_id
      await bindings.activate(id, source, await findTarget(id))
      return { status: 204, bytes: Buffer.alloc(0) }
    },
  } satisfies Partial<Handlers<typeof agentServerRoutes>>
}
