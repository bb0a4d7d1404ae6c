import {
  consentParams,
  decideRepositoryConsentRequest,
  repositoryConsent,
  repositoryConsents,
} from '../agent-server/repositories/consent.ts'
import { ok } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'

/** Consent of the caller for the scripts that repositories bring. */
export const scriptConsentRoutes = defineRoutes(
  'repository scripts',
  {
    listScriptConsents: route.get('/api/v1/repository-consents', {
      summary: 'List the decisions of the caller about scripts of repositories',
      description:
        'The newest first, also those without a decision. Where `trust` is `ask`, a start waits for one.',
      responses: ok('All of them.', repositoryConsents),
    }),
    decideScriptConsent: route.put('/api/v1/repository-consents/{consent_id}', {
      summary: 'Allow or deny the scripts of a repository',
      audit: { target: 'consent', id: 'consent_id' },
      description: 'Starts that wait for it continue. It holds for exactly this content.',
      params: consentParams,
      body: decideRepositoryConsentRequest,
      responses: ok('The consent.', repositoryConsent),
    }),
    revokeScriptConsent: route.delete('/api/v1/repository-consents/{consent_id}', {
      summary: 'Forget a decision about scripts of a repository',
      audit: { target: 'consent', id: 'consent_id' },
      description: 'A start that waits for it continues without the scripts.',
      params: consentParams,
      responses: ok('What it was.', repositoryConsent),
    }),
  },
  { access: 'user' },
)
