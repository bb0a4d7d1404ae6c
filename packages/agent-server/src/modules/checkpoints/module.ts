import { checkpointRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { checkpointHandlers } from './handlers.ts'

/** The files of a workspace before each step. */
export const checkpointsModule = defineModule({
  name: 'checkpoints',
  routes: checkpointRoutes,
  open: ({ registry }) => ({ handlers: checkpointHandlers({ registry }) }),
})
