import { healthStatus, ok } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import { serverInfo } from './conversations/conversation.ts'

const healthResponses = ok('It is.', healthStatus)

export const healthRoutes = defineRoutes('health', {
  alive: route.get('/alive', {
    summary: 'Is the process alive?',
    open: true,
    responses: healthResponses,
  }),
  health: route.get('/health', {
    summary: 'Is the server healthy?',
    open: true,
    responses: healthResponses,
  }),
  ready: route.get('/ready', {
    summary: 'May requests be sent?',
    open: true,
    responses: { ...healthResponses, 503: { description: 'Not yet.', schema: healthStatus } },
  }),
  serverInfo: route.get('/server_info', {
    summary: 'Versions, uptime and abilities of the server',
    open: true,
    responses: ok('What the server is.', serverInfo),
  }),
  root: route.get('/', {
    summary: 'The same as /server_info',
    open: true,
    responses: ok('What the server is.', serverInfo),
  }),
})
