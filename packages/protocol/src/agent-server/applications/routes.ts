import * as z from 'zod'
import { invalidOrRefused, ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { boundedText, component, withDefault } from '../../core/schemas.ts'
import {
  enableRequest,
  enableResponse,
  extensionName,
  installRequest,
  uninstallResponse,
} from '../extensions/extension.ts'
import { secretName } from '../settings/settings.ts'
import { applicationBackendStatus, installedApplication } from './application.ts'

const nameParams = z.object({ extension_name: extensionName })
const revisionRequest = component('CanvasExtensionBackendRequest', { revision: boundedText(1, 200) })
const approvalRequest = component('CanvasExtensionBackendApproval', {
  revision: boundedText(1, 200),
  secrets: withDefault(z.array(secretName).max(50), []).meta({
    description: 'The names of the secrets that the program gets: all that its manifest asks for.',
  }),
})
const status = ok('The state of its program.', applicationBackendStatus)
const refused = { 409: { description: 'Its state, its files or its approval do not permit this.' } }
const missing = { 404: { description: 'It is not installed, or has no such file.' } }

/** Installed applications: pages of the web client, each perhaps with its own program. */
export const applicationRoutes = defineRoutes('applications', {
  installCanvasExtension: route.post('/api/canvas-extensions/install', {
    summary: 'Install an application',
    description:
      'It is disabled at first. `force` replaces its files and takes the approval of its program back.',
    body: installRequest,
    responses: {
      ...ok('It is installed.', installedApplication),
      400: { description: 'The source cannot be fetched.' },
      409: { description: 'It is installed, or a program of an application runs.' },
      ...invalidOrRefused('The request, or the manifest of the source, is not valid.'),
    },
  }),
  getCanvasExtension: route.get('/api/canvas-extensions/installed/{extension_name}', {
    summary: 'Get an installed application',
    params: nameParams,
    responses: { ...ok('The application.', installedApplication), ...missing },
  }),
  enableCanvasExtension: route.patch('/api/canvas-extensions/installed/{extension_name}', {
    summary: 'Enable or disable an installed application',
    description: 'The program of a disabled application is stopped.',
    params: nameParams,
    body: enableRequest,
    responses: { ...ok('It is.', enableResponse), ...missing },
  }),
  uninstallCanvasExtension: route.delete('/api/canvas-extensions/installed/{extension_name}', {
    summary: 'Uninstall an application',
    description: 'Its program is stopped; what the program has stored stays.',
    params: nameParams,
    responses: { ...ok('It is gone.', uninstallResponse), ...missing },
  }),
  getCanvasExtensionBundle: route.get('/api/canvas-extensions/installed/{extension_name}/bundle', {
    summary: 'Get the code of the page of an application',
    params: nameParams,
    responses: { 200: { description: 'The file.', contentType: 'text/javascript' }, ...missing },
  }),
  getCanvasExtensionIcon: route.get('/api/canvas-extensions/installed/{extension_name}/icon', {
    summary: 'Get the icon of an application',
    params: nameParams,
    responses: { 200: { description: 'The file.', contentType: 'image/svg+xml' }, ...missing },
  }),
  getCanvasExtensionBackend: route.get('/api/canvas-extensions/installed/{extension_name}/backend', {
    summary: 'Get the state of the program of an application',
    description: '`missing` for an application that is not installed.',
    params: nameParams,
    responses: status,
  }),
  prepareCanvasExtensionBackend: route.post(
    '/api/canvas-extensions/installed/{extension_name}/backend/prepare',
    {
      summary: 'Approve the program of a revision of an application',
      description:
        'Verifies the checksum of its archive and unpacks it read-only. An approval that does not name the secrets of the manifest is refused, with their names.',
      params: nameParams,
      body: approvalRequest,
      responses: { ...status, ...refused },
    },
  ),
  startCanvasExtensionBackend: route.post('/api/canvas-extensions/installed/{extension_name}/backend/start', {
    summary: 'Start the approved program of an application',
    description: 'Answers when it is ready or has failed.',
    params: nameParams,
    body: revisionRequest,
    responses: { ...status, ...refused },
  }),
  stopCanvasExtensionBackend: route.post('/api/canvas-extensions/installed/{extension_name}/backend/stop', {
    summary: 'Stop the program of an application',
    description: 'With everything that it started in its process group.',
    params: nameParams,
    responses: status,
  }),
  getCanvasExtensionBackendLogs: route.get('/api/canvas-extensions/installed/{extension_name}/backend/logs', {
    summary: 'Get the newest output of the program of an application',
    params: nameParams,
    query: z.object({ limit_bytes: z.coerce.number().int().min(1).max(262_144).default(65_536) }),
    responses: ok(
      'The output; it is kept after the end of the program.',
      component('CanvasExtensionBackendLogs', {
        name: z.string(),
        logs: z.string(),
        truncated: z.boolean(),
      }),
    ),
  }),
  deleteCanvasExtensionBackendData: route.delete(
    '/api/canvas-extensions/installed/{extension_name}/backend/data',
    {
      summary: 'Delete what the program of an application has stored',
      params: nameParams,
      responses: { ...status, ...refused },
    },
  ),
})

/** What opens an application at its own origin. */
export const applicationLinkRoutes = defineRoutes('applications', {
  createApplicationLink: route.post('/api/canvas-extensions/installed/{extension_name}/link', {
    summary: 'Open an application at its own origin',
    description:
      'The address works once, within a minute, for a browser on the machine of the server. It leads to the program, at a name and port that no other application has.',
    params: nameParams,
    responses: {
      ...ok('The address.', component('CanvasAppLink', { url: z.string(), expires_at: z.string() })),
      409: { description: 'The server is called by a name that is not one of its own machine.' },
      503: { description: 'There is no program that is ready.' },
    },
  }),
})

const bridgeRefusals = {
  403: { description: 'Pages of this origin may not do this.' },
  409: { description: 'The request comes from the origin of the applications itself.' },
  421: { description: 'The request is not addressed to the origin of the applications.' },
  503: { description: 'There is no such origin, or no program that is ready.' },
}

/**
 * Sessions of pages of applications. With the cookie of one, everything else below `/app-backends/{name}`,
 * WebSockets too, passes to the program of the application.
 */
export const applicationBridgeRoutes = defineRoutes('applications', {
  createApplicationSession: route.post('/app-backends/{extension_name}/session', {
    summary: 'Let a page of an application reach its program',
    description: 'The answer sets a cookie for this application at the origin of the applications.',
    params: nameParams,
    responses: {
      ...ok(
        'The session.',
        component('CanvasAppSession', {
          ingress_url: z.string(),
          expires_at: z.string(),
          iframe_sandbox: z.string(),
        }),
      ),
      ...bridgeRefusals,
    },
  }),
  revokeApplicationSession: route.delete('/app-backends/{extension_name}/session', {
    summary: 'End the session of the cookie',
    description: 'Its WebSockets are closed.',
    params: nameParams,
    responses: { 204: { description: 'There is none any more.' }, ...bridgeRefusals },
  }),
})
