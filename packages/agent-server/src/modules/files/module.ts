import { homedir } from 'node:os'
import { fileRoutes } from '@slipway/protocol'
import { type Core, defineModule } from '../../core/module.ts'
import { fileHandlers } from './handlers.ts'

/** Handlers of files, held to a directory if one is passed. */
export type FileHandlers = (root?: string) => ReturnType<typeof fileHandlers>

function createFileHandlers({ programs, storage, infoReader, directories }: Core): FileHandlers {
  const { environment } = programs
  return (root) =>
    fileHandlers({
      root,
      homeDirectory: environment.HOME ?? homedir(),
      log: storage.log,
      infoReader,
      dataDirectory: directories.data,
      environment,
    })
}

/** Files of the machine, archives and trajectories. */
export const filesModule = defineModule({
  name: 'files',
  routes: fileRoutes,
  open(core) {
    const files = createFileHandlers(core)
    return { handlers: files(), offer: files }
  },
})
