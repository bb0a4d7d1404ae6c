import { defineModule } from '../../core/module.ts'
import { createKeyRefresh } from './managed-keys.ts'

/**
 * What a control plane tells the agent servers that it starts: a profile, and where keys are fetched again.
 */
export const managedModelsModule = defineModule({
  name: 'managed-models',
  routes: {},
  settings: [
    'SLIPWAY_LLM_API_KEY_REFRESH_URL',
    'SLIPWAY_LLM_API_KEY_REFRESH_BASE_URLS',
    'SLIPWAY_LLM_API_KEY_REFRESH_HEADERS',
    'SLIPWAY_RUNTIME_LAUNCHED_PROFILE',
  ],
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
