import { bashRoutes } from '@slipway/protocol'
import { createGauge } from '@slipway/shared/metrics'
import { toolUser } from '@slipway/shared/tool-files'
import { defineModule } from '../../core/module.ts'
import { BashService } from './bash-service.ts'
import { bashHandlers } from './handlers.ts'
import { bashSocket } from './socket.ts'

export type { BashScope, BashService } from './bash-service.ts'
export { bashHandlers } from './handlers.ts'

/** Commands of clients. */
export const bashModule = defineModule({
  name: 'bash',
  routes: bashRoutes,
  sockets: [{ path: '/sockets/bash-events' }],
  async open({ config, directories, storage, programs, host: { clock, log, activity } }) {
    const now = () => clock.now() * 1000
    const bash = await BashService.open({
      directory: config.bashDirectory ?? directories.data,
      workingDirectory: toolUser()?.home ?? process.cwd(),
      ...programs,
      retentionMs: config.bashRetentionMs,
      health: storage.health,
      log,
      now,
    })
    const socket = bashSocket({ bash, activity, now })
    return {
      handlers: bashHandlers({ bash }),
      sockets: { [socket.path]: socket },
      conversations: {
        isInUse: (id) => bash.isRunning(id),
        onRemove: (id) => bash.removeConversation(id),
      },
      metrics: [
        createGauge(
          'slipway_bash_commands_running',
          'Commands of /api/bash that run.',
          () => bash.runningCount,
        ),
        bash.endedCommands,
      ],
      offer: bash,
      close: bash,
    }
  },
})
