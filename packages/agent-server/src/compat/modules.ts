import type { Module } from '../core/module.ts'
import { agentProfilesModule } from './agent-profiles/module.ts'
import { applicationsModule } from './applications/module.ts'
import { credentialBindingsModule } from './credential-bindings/module.ts'
import { editorModule } from './editor/module.ts'
import { managedModelsModule } from './managed-models/module.ts'
import { metaProfilesModule } from './meta-profiles/module.ts'
import { providerConnectionsModule } from './provider-connections/module.ts'
import { routeMirrorsModule } from './route-mirrors/module.ts'
import { savedWorkspacesModule } from './saved-workspaces/module.ts'

/** What only clients of the reference ask for, in the order of opening. */
export const compatModules: readonly Module[] = [
  providerConnectionsModule,
  metaProfilesModule,
  agentProfilesModule,
  managedModelsModule,
  savedWorkspacesModule,
  editorModule,
  routeMirrorsModule,
  credentialBindingsModule,
  applicationsModule,
]
