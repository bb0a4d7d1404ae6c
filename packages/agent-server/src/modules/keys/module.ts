import { keyRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { keyHandlers } from './handlers.ts'
import { ScopedKeys } from './scoped-keys.ts'

/** Keys that may do less than a session key. */
export const keysModule = defineModule({
  name: 'keys',
  routes: keyRoutes,
  open({ config, documents, cipher, storage: { conversations }, host: { clock } }) {
    const keys = new ScopedKeys({ documents, cipher, clock })
    const isKeyless = config.sessionKeys.length === 0
    return {
      handlers: keyHandlers({ keys, conversations, isKeyless }),
      conversations: { onRemove: (id) => keys.removeOf(id) },
      findScopedKey: (key) => keys.find(key),
    }
  },
})
