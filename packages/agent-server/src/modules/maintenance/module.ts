import { maintenanceRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { bashModule } from '../bash/module.ts'
import { maintenanceHandlers } from './handlers.ts'

/** Makes databases smaller. */
export const maintenanceModule = defineModule({
  name: 'maintenance',
  routes: maintenanceRoutes,
  needs: [bashModule],
  open: ({ directories, storage }, use) => ({
    handlers: maintenanceHandlers({ directory: directories.data, storage, bash: use(bashModule).events }),
  }),
})
