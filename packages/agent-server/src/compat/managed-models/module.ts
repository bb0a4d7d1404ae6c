import { defineModule } from '../../core/module.ts'
import { createKeyRefresh } from './managed-keys.ts'

/**
 * What a control plane tells the agent servers that it starts: a profile, and where keys are fetched again.
 */
export const managedModelsModule = defineModule({
  name: 'managed-models',
  routes: {},
  open({ config: { keyRefresh, launchedProfile }, host: { log } }) {
    if (keyRefresh === undefined) return { conversations: { launchedProfile } }
    const refreshKey = createKeyRefresh({ ...keyRefresh, fetch, log })
    return {
      conversations: {
        launchedProfile,
        wrapModel: (open) => (llm, options) => open(llm, { ...options, refreshKey }),
      },
    }
  },
})
