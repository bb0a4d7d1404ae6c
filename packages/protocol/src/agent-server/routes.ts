import { consoleRoutes } from '../console/console-routes.ts'
import type { RouteTable } from '../core/route.ts'
import { acpRoutes } from './agents/acp-routes.ts'
import { subAgentRoutes } from './agents/sub-agent-routes.ts'
import { toolRoutes } from './agents/tool-routes.ts'
import { applicationBridgeRoutes, applicationLinkRoutes, applicationRoutes } from './applications/routes.ts'
import { bashRoutes } from './bash/routes.ts'
import { conversationWorkspaceRoutes } from './conversation-workspaces/routes.ts'
import { checkpointRoutes } from './conversations/checkpoint-routes.ts'
import { eventRoutes } from './conversations/event-routes.ts'
import { conversationRoutes } from './conversations/routes.ts'
import { credentialBindingRoutes, runtimeRoutes } from './conversations/runtime-routes.ts'
import { timelineRoutes } from './conversations/timeline-routes.ts'
import { editorRoutes } from './editor/routes.ts'
import { fileRoutes } from './files/routes.ts'
import { gatewayRoutes } from './gateway/routes.ts'
import { gitRoutes } from './git/routes.ts'
import { healthRoutes } from './health-routes.ts'
import { initRoutes } from './init/routes.ts'
import { keyRoutes } from './keys/routes.ts'
import { llmCatalogueRoutes } from './llm/catalogue-routes.ts'
import { providerConnectionRoutes } from './llm/provider-connection-routes.ts'
import { maintenanceRoutes } from './maintenance/routes.ts'
import { mcpRoutes } from './mcp/routes.ts'
import { mcpServerRoutes } from './mcp-server/routes.ts'
import { applicationListRoutes, pluginRoutes } from './plugins/routes.ts'
import { agentProfileRoutes } from './profiles/agent-profile-routes.ts'
import { llmProfileRoutes } from './profiles/llm-profile-routes.ts'
import { metaProfileRoutes } from './profiles/meta-profile-routes.ts'
import { repositoryConsentRoutes } from './repositories/consent-routes.ts'
import { sessionStoreRoutes } from './session-store/routes.ts'
import { settingsRoutes } from './settings/routes.ts'
import { skillRoutes } from './skills/routes.ts'
import { workspaceRoutes } from './workspaces/file-routes.ts'
import { workspacesListRoutes } from './workspaces/list-routes.ts'

/** Every operation of the agent server. */
export const agentServerRoutes = {
  ...healthRoutes,
  ...conversationRoutes,
  ...eventRoutes,
  ...llmProfileRoutes,
  ...gitRoutes,
  ...settingsRoutes,
  ...skillRoutes,
  ...pluginRoutes,
  ...applicationListRoutes,
  ...subAgentRoutes,
  ...bashRoutes,
  ...fileRoutes,
  ...initRoutes,
  ...workspaceRoutes,
  ...toolRoutes,
  ...agentProfileRoutes,
  ...providerConnectionRoutes,
  ...workspacesListRoutes,
  ...llmCatalogueRoutes,
  ...mcpRoutes,
  ...editorRoutes,
  ...gatewayRoutes,
  ...repositoryConsentRoutes,
  ...checkpointRoutes,
  ...runtimeRoutes,
  ...credentialBindingRoutes,
  ...consoleRoutes,
  ...timelineRoutes,
  ...conversationWorkspaceRoutes,
  ...applicationRoutes,
  ...maintenanceRoutes,
  ...metaProfileRoutes,
  ...applicationBridgeRoutes,
  ...applicationLinkRoutes,
  ...acpRoutes,
  ...keyRoutes,
  ...mcpServerRoutes,
  ...sessionStoreRoutes,
} satisfies RouteTable
