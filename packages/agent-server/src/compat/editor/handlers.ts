import type { Handlers } from '@slipway/http'
import { type editorRoutes, Problem, serverFailure } from '@slipway/protocol'

/** Clients compare it. */
const noEditor = 'VSCode is disabled in configuration'

interface EditorAddress {
  readonly isRunning: boolean
  url(folder: string, baseUrl?: string): string | undefined
}

/** Pages treat 503 as a disabled service; after 404 they show an error repeatedly. */
function refuseAutomation(): never {
  throw new Problem('unavailable', 'This server has no automations.')
}

/** There is no desktop, and an editor where one is configured. Clients ask for the status before the URL. */
export function editorHandlers(editor: EditorAddress | undefined): Handlers<typeof editorRoutes> {
  return {
    getEditorStatus: () => ({
      json:
        editor === undefined
          ? { running: false, enabled: false, message: noEditor }
          : { running: editor.isRunning, enabled: true },
    }),
    getEditorUrl({ query }) {
      if (editor === undefined)
        throw serverFailure('unavailable', `503: ${noEditor}. Set enable_vscode=true to enable.`)
      return { json: { url: editor.url(query.workspace_dir ?? 'workspace', query.base_url) ?? null } }
    },
    getDesktopUrl: () => {
      throw new Problem('unavailable', 'This server has no desktop.')
    },
    getAutomation: refuseAutomation,
    postAutomation: refuseAutomation,
  }
}
