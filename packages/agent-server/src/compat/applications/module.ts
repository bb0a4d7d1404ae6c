import {
  applicationBridgeRoutes,
  applicationLinkRoutes,
  applicationListRoutes,
  applicationRoutes,
} from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { applicationPrefix } from '../../core/server/ingress.ts'
import { applicationDirectory, applicationHomes } from './application-backends.ts'
import { openApplications } from './open-applications.ts'

/** Applications of a web client, and their programs. */
export const applicationsModule = defineModule({
  name: 'applications',
  routes: {
    ...applicationListRoutes,
    ...applicationRoutes,
    ...applicationLinkRoutes,
    ...applicationBridgeRoutes,
  },
  proxies: [applicationPrefix],
  programHomes: (directory) => applicationHomes(applicationDirectory(directory)),
  open({ config, directories, programs: { environment }, secrets, host: { ingress, log } }) {
    const opened = openApplications({
      directory: directories.data,
      environment,
      ingress,
      sessionMs: config.applicationSessionMs,
      hasKeys: () => config.sessionKeys.length > 0,
      findSecret: (name) => secrets.getValue(name),
      log,
    })
    const { handlers, proxy } = opened
    return { handlers, proxies: { [applicationPrefix]: proxy }, close: opened }
  },
})
