import * as z from 'zod'
import { ok, unreadableResponses } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'
import {
  consentParams,
  decideRepositoryConsentRequest,
  repositoryConsent,
  repositoryConsents,
} from './consent.ts'

const directory = z
  .string()
  .min(1)
  .max(4096)
  .refine((text) => !text.includes('\0'), { message: 'The path contains a NUL byte' })

export const repositoryConsentRoutes = defineRoutes('repositories', {
  listRepositoryConsents: route.get('/api/repository-consents', {
    summary: 'List the decisions about hooks and agents of repositories',
    description: 'The newest first, also those without a decision.',
    responses: { ...ok('All of them.', repositoryConsents), ...unreadableResponses },
  }),
  inspectRepository: route.post('/api/repository-consents', {
    summary: 'Show what a repository brings that would run',
    description: 'No item when it brings nothing that runs. Nothing of it is run.',
    body: component('InspectRepositoryRequest', { directory }),
    responses: {
      ...ok('The consent for its content as it is now.', repositoryConsents),
      ...unreadableResponses,
    },
  }),
  decideRepositoryConsent: route.put('/api/repository-consents/{consent_id}', {
    summary: 'Allow or deny what a repository brings',
    description: 'Runs that wait for it continue. It holds for exactly this content.',
    params: consentParams,
    body: decideRepositoryConsentRequest,
    responses: { ...ok('The consent.', repositoryConsent), ...unreadableResponses },
  }),
  revokeRepositoryConsent: route.delete('/api/repository-consents/{consent_id}', {
    summary: 'Forget a decision about a repository',
    description: 'Conversations that are loaded keep what they loaded until they are loaded again.',
    params: consentParams,
    responses: { ...ok('What it was.', repositoryConsent), ...unreadableResponses },
  }),
})
