import { metaProfileRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { settingsModule } from '../../modules/settings/module.ts'
import { metaProfileHandlers } from './handlers.ts'
import { MetaProfiles } from './meta-profiles.ts'

/** Saved rules that choose a model. */
export const metaProfilesModule = defineModule({
  name: 'meta-profiles',
  routes: metaProfileRoutes,
  needs: [settingsModule],
  open({ documents }, use) {
    const profiles = new MetaProfiles({ documents, settings: use(settingsModule) })
    return { handlers: metaProfileHandlers({ profiles }), conversations: { metaProfiles: profiles } }
  },
})
