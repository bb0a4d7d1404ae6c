import type { Module } from '../core/module.ts'
import { bashModule } from './bash/module.ts'
import { budgetsModule } from './budgets/module.ts'
import { checkpointsModule } from './checkpoints/module.ts'
import { extensionsModule } from './extensions/module.ts'
import { filesModule } from './files/module.ts'
import { formatsModule } from './formats/module.ts'
import { gatewayModule } from './gateway/module.ts'
import { gitModule } from './git/module.ts'
import { keysModule } from './keys/module.ts'
import { llmProfilesModule } from './llm-profiles/module.ts'
import { maintenanceModule } from './maintenance/module.ts'
import { mcpModule } from './mcp/module.ts'
import { mcpServerModule } from './mcp-server/module.ts'
import { repositoryConsentsModule } from './repository-consents/module.ts'
import { sessionStoreModule } from './session-store/module.ts'
import { settingsModule } from './settings/module.ts'
import { subAgentsModule } from './sub-agents/module.ts'
import { timelineModule } from './timeline/module.ts'
import { toolsModule } from './tools/module.ts'
import { workspacePagesModule } from './workspace-pages/module.ts'

/** What people's own clients need, in the order of opening: a module after those that it needs. */
export const ownModules: readonly Module[] = [
  settingsModule,
  keysModule,
  budgetsModule,
  llmProfilesModule,
  mcpModule,
  repositoryConsentsModule,
  extensionsModule,
  subAgentsModule,
  toolsModule,
  bashModule,
  filesModule,
  gitModule,
  workspacePagesModule,
  checkpointsModule,
  timelineModule,
  formatsModule,
  maintenanceModule,
]

/** Doors for other people's tools, opened after those: each by the member of `Config` that switches it on. */
export const doors = {
  hasGateway: gatewayModule,
  hasMcpServer: mcpServerModule,
  hasSessionStore: sessionStoreModule,
} as const satisfies Readonly<Record<string, Module>>
