import * as z from 'zod'
import { ok, unreadableResponses } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'
import { workspaceItemInput, workspaceParentInput, workspacesList } from './list.ts'

const pathQuery = z.object({ path: z.string().meta({ description: 'As it was added.' }) })
const addResponses = {
  200: { description: 'All of them.', schema: workspacesList },
  409: { description: 'There would be more than there may be, or what is kept cannot be read.' },
}
const removeResponses = {
  200: { description: 'It is gone.', schema: component('RemovedWorkspace', { deleted: z.boolean() }) },
  404: { description: 'There is none of this path.' },
  ...unreadableResponses,
}

export const workspacesListRoutes = defineRoutes('workspaces', {
  listWorkspaces: route.get('/api/workspaces', {
    summary: 'List the folders that somebody works in',
    responses: { ...ok('All of them.', workspacesList), ...unreadableResponses },
  }),
  addWorkspaces: route.post('/api/workspaces', {
    summary: 'Add workspaces to the list',
    description: 'One whose path is there already stays as it is.',
    body: component('AddWorkspacesRequest', {
      workspaces: z.array(workspaceItemInput).max(1000),
    }),
    responses: addResponses,
  }),
  removeWorkspace: route.delete('/api/workspaces', {
    summary: 'Take a workspace from the list',
    description: 'The folder itself stays.',
    query: pathQuery,
    responses: removeResponses,
  }),
  addWorkspaceParents: route.post('/api/workspaces/parents', {
    summary: 'Add folders of workspaces to the list',
    description: 'One whose path is there already stays as it is.',
    body: component('AddWorkspaceParentsRequest', {
      parents: z.array(workspaceParentInput).max(1000),
    }),
    responses: addResponses,
  }),
  removeWorkspaceParent: route.delete('/api/workspaces/parents', {
    summary: 'Take a folder of workspaces from the list',
    description: 'The folder itself, and workspaces that were found in it, stay.',
    query: pathQuery,
    responses: removeResponses,
  }),
})
