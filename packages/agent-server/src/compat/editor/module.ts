import { editorRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { Editor } from './editor.ts'
import { editorHandlers } from './handlers.ts'

/** The editor in the browser. */
export const editorModule = defineModule({
  name: 'editor',
  routes: editorRoutes,
  async open({ config, directories, programs, host: { log } }) {
    const editor =
      config.editor &&
      (await Editor.start({
        settings: config.editor,
        directory: directories.hidden,
        ...programs,
        allowedOrigins: config.allowedOrigins,
        log,
      }))
    const handlers = editorHandlers(editor)
    return { handlers, offer: handlers, ...(editor === undefined ? {} : { close: editor }) }
  },
})
