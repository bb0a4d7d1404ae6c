import { pluginRoutes, skillRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { openExtensions } from './open-extensions.ts'

/** Skills, plugins and marketplaces. */
export const extensionsModule = defineModule({
  name: 'extensions',
  routes: { ...skillRoutes, ...pluginRoutes },
  open({ config, directories, programs: { environment }, registry, host: { log } }) {
    const { skillsSource, marketplaces } = config
    const opened = openExtensions({
      directory: directories.data,
      ...{ environment, skillsSource, marketplaces, registry, log },
    })
    return {
      handlers: opened.handlers,
      conversations: { extensions: opened.extensions },
      offer: { userSkills: opened.userSkills },
      close: opened,
    }
  },
})
