import type { Handlers } from '@slipway/http'
import { type editorRoutes, Problem } from '@slipway/protocol'

/** Clients compare it. */
const noEditor = 'VSCode is disabled in configuration'

/** Pages treat 503 as a disabled service; after 404 they show an error repeatedly. */
function refuseAutomation(): never {
  throw new Problem('unavailable', 'This server has no automations.')
}

/** There is no editor and no desktop. Clients ask for the status before the URL. */
export function editorHandlers(): Handlers<typeof editorRoutes> {
  return {
    getEditorStatus: () => ({ json: { running: false, enabled: false, message: noEditor } }),
    getEditorUrl: () => ({ status: 503, json: { detail: noEditor, exception: `503: ${noEditor}` } }),
    getDesktopUrl: () => {
      throw new Problem('unavailable', 'This server has no desktop.')
    },
    getAutomation: refuseAutomation,
    postAutomation: refuseAutomation,
  }
}
