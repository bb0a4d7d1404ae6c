import type { Handlers } from '@slipway/http'
import type { RepositoryTrust, scriptConsentRoutes } from '@slipway/protocol'
import { getCaller } from '../auth/authenticator.ts'
import type { ScriptConsents } from './script-consents.ts'

export function scriptConsentHandlers({
  consents,
  trust,
}: {
  readonly consents: ScriptConsents
  readonly trust: RepositoryTrust
}): Handlers<typeof scriptConsentRoutes> {
  return {
    async listScriptConsents(request) {
      return { json: { trust, items: await consents.list(getCaller(request).owner) } }
    },
    async decideScriptConsent(request) {
      const { params, body } = request
      return { json: await consents.decide(getCaller(request).owner, params.consent_id, body.decision) }
    },
    async revokeScriptConsent(request) {
      return { json: await consents.revoke(getCaller(request).owner, request.params.consent_id) }
    },
  }
}
