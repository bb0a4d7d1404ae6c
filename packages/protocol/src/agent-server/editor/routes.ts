import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'

const base_url = z.string().optional()
const urlResponse = component('EditorUrl', { url: z.string().nullable() })
const unavailableResponses = {
  200: { description: 'Its address; null while it is not running.', schema: urlResponse },
  503: { description: 'This server has none.' },
}

const automationRoute = {
  summary: 'Automations: its own service, which this server does not have',
  params: z.object({ path: z.string() }),
  responses: { 503: { description: 'There are none.' } },
} as const

/** Clients look for an editor, a desktop and a service for automations; this server has the first at most. */
export const editorRoutes = defineRoutes('editor', {
  getEditorStatus: route.get('/api/vscode/status', {
    summary: 'Is there an editor in the browser?',
    responses: ok(
      'Whether it is enabled, and whether it runs.',
      component('EditorStatus', {
        running: z.boolean(),
        enabled: z.boolean(),
        message: z.string().optional(),
      }),
    ),
  }),
  getEditorUrl: route.get('/api/vscode/url', {
    summary: 'Get the address of the editor',
    query: z.object({ base_url, workspace_dir: z.string().optional() }),
    responses: unavailableResponses,
  }),
  getDesktopUrl: route.get('/api/desktop/url', {
    summary: 'Get the address of the desktop',
    query: z.object({ base_url }),
    responses: unavailableResponses,
  }),
  getAutomation: route.get('/api/automation/{path*}', automationRoute),
  postAutomation: route.post('/api/automation/{path*}', automationRoute),
})
