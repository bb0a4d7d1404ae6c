import * as z from 'zod'
import { profileName } from '../agent-server/llm/profile-name.ts'
import { ok } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import { component } from '../core/schemas.ts'
import { accountRoutes } from './account-routes.ts'

const organizationParams = z.object({ org_id: z.string().min(1).max(100) })
const profileParams = organizationParams.extend({ name: profileName })
const notOwn = { 404: { description: 'The caller is not a member of that organisation.' } }

const ownOrganization = component('OwnOrganization', {
  id: z.string(),
  name: z.string(),
  is_personal: z.boolean().meta({ description: 'That of the user alone, with the id of the user.' }),
})

/** LLM profiles as in the settings, at the address where web clients look for them. */
const sameProfiles = {
  listOrganizationProfiles: route.get('/api/organizations/{org_id}/profiles', {
    summary: accountRoutes.listUserProfiles.summary,
    description:
      'Profiles belong to users, also below the address of an organisation: members do not share them.',
    params: organizationParams,
    responses: { ...accountRoutes.listUserProfiles.responses, ...notOwn },
  }),
  getOrganizationProfile: route.get('/api/organizations/{org_id}/profiles/{name}', {
    summary: accountRoutes.getUserProfile.summary,
    params: profileParams,
    responses: { ...accountRoutes.getUserProfile.responses, ...notOwn },
  }),
  saveOrganizationProfile: route.post('/api/organizations/{org_id}/profiles/{name}', {
    summary: accountRoutes.saveUserProfile.summary,
    audit: { target: 'profile', id: 'name' },
    description: accountRoutes.saveUserProfile.description,
    params: profileParams,
    body: accountRoutes.saveUserProfile.body,
    responses: { ...accountRoutes.saveUserProfile.responses, ...notOwn },
  }),
  deleteOrganizationProfile: route.delete('/api/organizations/{org_id}/profiles/{name}', {
    summary: accountRoutes.deleteUserProfile.summary,
    audit: { target: 'profile', id: 'name' },
    params: profileParams,
    responses: { ...accountRoutes.deleteUserProfile.responses, ...notOwn },
  }),
  activateOrganizationProfile: route.post('/api/organizations/{org_id}/profiles/{name}/activate', {
    summary: accountRoutes.activateUserProfile.summary,
    audit: { target: 'profile', id: 'name' },
    params: profileParams,
    responses: { ...accountRoutes.activateUserProfile.responses, ...notOwn },
  }),
  renameOrganizationProfile: route.post('/api/organizations/{org_id}/profiles/{name}/rename', {
    summary: accountRoutes.renameUserProfile.summary,
    audit: { target: 'profile', id: 'name' },
    params: profileParams,
    body: accountRoutes.renameUserProfile.body,
    responses: { ...accountRoutes.renameUserProfile.responses, ...notOwn },
  }),
}

/** The organisations in which a caller works, as web clients ask for them. */
export const ownOrganizationRoutes = defineRoutes(
  'organizations',
  {
    listOwnOrganizations: route.get('/api/organizations', {
      summary: 'List the organisations in which the caller works',
      description:
        'With a key of an organisation that one. A user of none has a personal one, with the id of the user.',
      responses: ok(
        'All of them.',
        z.object({ items: z.array(ownOrganization), current_org_id: z.string().nullable() }),
      ),
    }),
    getOwnMembership: route.get('/api/organizations/{org_id}/me', {
      summary: 'The caller as a member of an organisation',
      params: organizationParams,
      responses: {
        ...ok(
          'The member.',
          component('OwnMembership', {
            org_id: z.string(),
            user_id: z.string().nullable(),
            role: z.enum(['owner', 'admin', 'member']),
            permissions: z.array(z.string()).meta({
              description: '`edit_org_settings`: the key may save LLM profiles, which are those of its user.',
            }),
          }),
        ),
        ...notOwn,
      },
    }),
    ...sameProfiles,
    listOrganizationProviders: route.get('/api/organizations/{org_id}/provider-connections', {
      summary: 'List accounts at providers of models that members share: none',
      description: 'Keys of models are in LLM profiles and settings.',
      params: organizationParams,
      responses: { ...ok('None.', z.object({ connections: z.array(z.never()) })), ...notOwn },
    }),
  },
  { access: 'user' },
)
