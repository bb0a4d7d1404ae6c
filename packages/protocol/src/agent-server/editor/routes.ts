import * as z from 'zod'
import type { RouteTable } from '../../core/route.ts'

const base_url = z.string().optional()
const urlResponse = z.object({ url: z.string().nullable() }).meta({ id: 'EditorUrl' })
const unavailableResponses = {
  200: { description: 'Its address.', schema: urlResponse },
  503: { description: 'This server has none.' },
}

const automationRoute = {
  path: '/api/automation/{path*}',
  tag: 'editor',
  summary: 'Automations: a service of its own, which this server does not have',
  params: z.object({ path: z.string() }),
  responses: { 503: { description: 'There are none.' } },
} as const

/** Clients ask whether there is an editor, a desktop, or a service for automations; this server has none of them, and says so. */
export const editorRoutes = {
  getEditorStatus: {
    method: 'GET',
    path: '/api/vscode/status',
    tag: 'editor',
    summary: 'Is there an editor in the browser?',
    responses: {
      200: {
        description: 'Whether it is enabled, and whether it runs.',
        schema: z
          .object({ running: z.boolean(), enabled: z.boolean(), message: z.string() })
          .meta({ id: 'EditorStatus' }),
      },
    },
  },
  getEditorUrl: {
    method: 'GET',
    path: '/api/vscode/url',
    tag: 'editor',
    summary: 'Get the address of the editor',
    query: z.object({ base_url, workspace_dir: z.string().optional() }),
    responses: unavailableResponses,
  },
  getDesktopUrl: {
    method: 'GET',
    path: '/api/desktop/url',
    tag: 'editor',
    summary: 'Get the address of the desktop',
    query: z.object({ base_url }),
    responses: unavailableResponses,
  },
  getAutomation: { method: 'GET', ...automationRoute },
  postAutomation: { method: 'POST', ...automationRoute },
} as const satisfies RouteTable
