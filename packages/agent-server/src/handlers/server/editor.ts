import type { Handlers } from '@slipway/http'
import { type editorRoutes, Problem } from '@slipway/protocol'

const noEditor = 'This server has no editor in the browser.'

/** Pages take this for a service that is switched off; where nothing is found they show an error again and again. */
function refuseAutomation(): never {
  throw new Problem('unavailable', 'This server has no automations.')
}

/** There is no editor and no desktop. Clients ask for the state first, and for the address only where it says that there is one. */
export function editorHandlers(): Handlers<typeof editorRoutes> {
  return {
    getEditorStatus: () => ({ json: { running: false, enabled: false, message: noEditor } }),
    getEditorUrl: () => {
      throw new Problem('unavailable', noEditor)
    },
    getDesktopUrl: () => {
      throw new Problem('unavailable', 'This server has no desktop.')
    },
    getAutomation: refuseAutomation,
    postAutomation: refuseAutomation,
  }
}
