import * as z from 'zod'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'
import { initRequest, initState } from './init.ts'

const statusResponses = {
  200: {
    description: 'The state.',
    schema: component('InitStatus', { state: initState, error: z.string().nullable() }),
  },
}

/** A server that starts without its settings and gets them later. */
export const initRoutes = defineRoutes('init', {
  getInit: route.get('/api/init', {
    summary: 'Has the server got its settings?',
    open: true,
    responses: statusResponses,
  }),
  postInit: route.post('/api/init', {
    headers: { 'X-Init-API-Key': 'The key of the settings, where one is configured.' },
    summary: 'Give the server its settings',
    description:
      'Once. A server that does not wait for settings answers 404. The very same settings again are answered as the first time.',
    open: true,
    body: initRequest,
    maxBodyBytes: 262_144,
    responses: {
      ...statusResponses,
      400: { description: 'It has got other settings already.' },
      401: { description: 'The header X-Init-API-Key is missing or wrong.' },
      500: { description: 'The server could not be opened with these settings; others may be sent.' },
    },
  }),
})
