import { timelineRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { timelineHandlers } from './handlers.ts'

/** Parts of long logs by position, and the texts of many logs. */
export const timelineModule = defineModule({
  name: 'timeline',
  routes: timelineRoutes,
  open: ({ storage, registry }) => ({ handlers: timelineHandlers({ storage, registry }) }),
})
