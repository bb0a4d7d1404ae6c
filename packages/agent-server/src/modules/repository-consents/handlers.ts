import { resolve } from 'node:path'
import { readRepositoryCode } from '@slipway/agent'
import type { Handlers } from '@slipway/http'
import type { repositoryConsentRoutes } from '@slipway/protocol'
import type { ConversationRegistry } from '../../core/conversations/registry.ts'
import { type RepositoryConsents, repositoryIssues } from './repository-consents.ts'

export function repositoryConsentHandlers(options: {
  readonly consents: RepositoryConsents
  readonly registry: Pick<ConversationRegistry, 'resumeAfterConsent'>
}): Handlers<typeof repositoryConsentRoutes> {
  const { consents, registry } = options
  const { trust } = consents
  return {
    listRepositoryConsents: async () => ({ json: { trust, items: await consents.list() } }),
    async inspectRepository({ body }) {
      const code = await readRepositoryCode(resolve(body.directory))
      const issues = repositoryIssues(code)
      if (code.items.length > 0) return { json: { trust, items: [await consents.register(code)], issues } }
      // A conversation may wait because what was allowed is gone.
      const { repository, hash } = code
      const known = (await consents.list()).filter(
        (one) => one.repository === repository && one.hash === hash,
      )
      return { json: { trust, items: known, issues } }
    },
    async decideRepositoryConsent({ params: { consent_id }, body }) {
      const consent = await consents.decide(consent_id, body.decision)
      await registry.resumeAfterConsent(consent_id)
      return { json: consent }
    },
    revokeRepositoryConsent: async ({ params: { consent_id } }) => ({
      json: await consents.revoke(consent_id),
    }),
  }
}
