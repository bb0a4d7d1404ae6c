import { consoleRoutes } from '../console/console-routes.ts'
import type { RouteTable } from '../core/route.ts'
import { accountRoutes } from './account-routes.ts'
import { appConversationRoutes } from './app-conversation-routes.ts'
import { budgetRoutes } from './budget-routes.ts'
import { scriptConsentRoutes } from './consent-routes.ts'
import { gitProviderRoutes } from './git-routes.ts'
import { offerRoutes } from './offer-routes.ts'
import { operateRoutes, operatorRoutes } from './operator-routes.ts'
import { ownOrganizationRoutes } from './own-organization-routes.ts'
import { sandboxRoutes } from './sandbox-routes.ts'
import { sharingRoutes } from './sharing-routes.ts'
import { appTimelineRoutes } from './timeline-routes.ts'
import { webhookRoutes } from './webhook-routes.ts'

/** Every operation of the sandbox server. */
export const sandboxServerRoutes = {
  ...sandboxRoutes,
  ...appConversationRoutes,
  ...webhookRoutes,
  ...accountRoutes,
  ...offerRoutes,
  ...consoleRoutes,
  ...appTimelineRoutes,
  ...scriptConsentRoutes,
  ...gitProviderRoutes,
  ...ownOrganizationRoutes,
  ...operatorRoutes,
  ...operateRoutes,
  ...budgetRoutes,
  ...sharingRoutes,
} satisfies RouteTable
