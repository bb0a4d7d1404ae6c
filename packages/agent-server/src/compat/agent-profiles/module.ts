import { agentProfileRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { extensionsModule } from '../../modules/extensions/module.ts'
import { llmProfilesModule } from '../../modules/llm-profiles/module.ts'
import { settingsModule } from '../../modules/settings/module.ts'
import { AgentProfiles } from './agent-profiles.ts'
import { agentProfileHandlers } from './handlers.ts'

/** Saved agents. */
export const agentProfilesModule = defineModule({
  name: 'agent-profiles',
  routes: agentProfileRoutes,
  needs: [settingsModule, llmProfilesModule, extensionsModule],
  open({ documents, cipher, parts }, use) {
    const { profiles: llmProfiles, links } = use(llmProfilesModule)
    const { userSkills } = use(extensionsModule)
    const profiles = new AgentProfiles({
      documents,
      cipher,
      llmProfiles,
      findMetaProfile: (name) => parts.metaProfiles.get(name),
      settings: use(settingsModule),
      listUserSkills: userSkills,
    })
    links.references = profiles
    return { handlers: agentProfileHandlers({ profiles }), conversations: { agentProfiles: profiles } }
  },
})
