import { unixFetch } from '@slipway/http'
import { credentialBindingRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { CredentialBindings } from './credential-bindings.ts'
import { credentialBindingHandlers } from './handlers.ts'

/** Binds credentials of external agents to their sources. */
export const credentialBindingsModule = defineModule({
  name: 'credential-bindings',
  routes: credentialBindingRoutes,
  capabilities: [
    'credential_binding_v1',
    'credential_binding_readiness_probe_v1',
    'credential_binding_activation_guard_v1',
  ],
  open({ documents, storage, registry }) {
    const bindings = new CredentialBindings(documents)
    return {
      handlers: credentialBindingHandlers({ bindings, storage, registry, fetch: unixFetch }),
      conversations: { credentials: bindings, onRemove: (id) => bindings.remove(id) },
    }
  },
})
