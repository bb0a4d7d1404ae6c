import * as z from 'zod'
import { mcpServer } from '../agent-server/agents/agent.ts'
import { strictLlm } from '../agent-server/llm/llm.ts'
import { profileName } from '../agent-server/llm/profile-name.ts'
import { createMcpServerRequest, mcpServerName } from '../agent-server/settings/settings.ts'
import { ok, successResponses } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import { component, uuid, withDefault } from '../core/schemas.ts'
import { accountRoutes } from './account-routes.ts'

const params = z.object({ org_id: uuid })
const profileParams = params.extend({ name: profileName })
const serverParams = params.extend({ name: mcpServerName })
const audit = { target: 'organization', id: 'org_id' } as const
const forManagers = 'For owners and admins of the organisation. Sandboxes that run keep what they have.'

/** What an organisation shares with its members: models with their keys, and MCP servers. */
export const sharingRoutes = defineRoutes(
  'admin',
  {
    listSharedProfiles: route.get('/api/admin/organizations/{org_id}/profiles', {
      summary: 'List the models that an organisation shares with its members',
      description:
        'For its members, without keys. A start or a switch names one as one of the own, which comes first; the active one is that of members who have set no model.',
      params,
      responses: accountRoutes.listUserProfiles.responses,
    }),
    saveSharedProfile: route.put('/api/admin/organizations/{org_id}/profiles/{name}', {
      summary: 'Share a model under a name',
      audit,
      description: `One of the same name is replaced. ${forManagers}`,
      params: profileParams,
      body: component('SaveSharedProfileRequest', {
        llm: strictLlm,
        preserve_existing_api_key: withDefault(z.boolean(), false),
      }),
      responses: { ...successResponses, 409: { description: 'There are as many as there may be.' } },
    }),
    deleteSharedProfile: route.delete('/api/admin/organizations/{org_id}/profiles/{name}', {
      summary: 'Share a model no longer',
      audit,
      description: `If it was the active one, none is. ${forManagers}`,
      params: profileParams,
      responses: successResponses,
    }),
    activateSharedProfile: route.post('/api/admin/organizations/{org_id}/profiles/{name}/activate', {
      summary: 'Make a shared model that of members who have set none',
      audit,
      description: forManagers,
      params: profileParams,
      responses: successResponses,
    }),
    listSharedMcpServers: route.get('/api/admin/organizations/{org_id}/mcp-servers', {
      summary: 'List the MCP servers that an organisation shares with its members',
      description:
        'For its members by name; owners and admins see the rest, with values of variables and headers as stars.',
      params,
      responses: ok(
        'All of them.',
        z.object({
          items: z.array(component('SharedMcpServer', { name: z.string(), server: mcpServer.nullable() })),
        }),
      ),
    }),
    saveSharedMcpServer: route.put('/api/admin/organizations/{org_id}/mcp-servers/{name}', {
      summary: 'Share an MCP server under a name',
      audit,
      description: `One of the same name is replaced; one that a member has set under that name comes before it. ${forManagers}`,
      params: serverParams,
      body: createMcpServerRequest,
      responses: { ...successResponses, 409: { description: 'There are as many as there may be.' } },
      example: { url: 'https://mcp.example.org/mcp', headers: { Authorization: 'Bearer ...' } },
    }),
    deleteSharedMcpServer: route.delete('/api/admin/organizations/{org_id}/mcp-servers/{name}', {
      summary: 'Share an MCP server no longer',
      audit,
      description: forManagers,
      params: serverParams,
      responses: successResponses,
    }),
  },
  { access: 'organization' },
)
