import * as z from 'zod'
import type { RouteTable } from '../../core/route.ts'
import { addWorkspaceParentsRequest, addWorkspacesRequest, removedWorkspace, workspacesList } from './list.ts'

const tag = 'workspaces'
const pathQuery = z.object({ path: z.string().meta({ description: 'As it was added.' }) })
const unreadableResponses = { 409: { description: 'What is kept cannot be read.' } }
const addResponses = {
  200: { description: 'All of them.', schema: workspacesList },
  409: { description: 'There would be more than there may be, or what is kept cannot be read.' },
}
const removeResponses = {
  200: { description: 'It is gone; what is left.', schema: removedWorkspace },
  404: { description: 'There is none of this path.' },
  ...unreadableResponses,
}

export const workspacesListRoutes = {
  listWorkspaces: {
    method: 'GET',
    path: '/api/workspaces',
    tag,
    summary: 'List the folders that somebody works in',
    responses: { 200: { description: 'All of them.', schema: workspacesList }, ...unreadableResponses },
  },
  addWorkspaces: {
    method: 'POST',
    path: '/api/workspaces',
    tag,
    summary: 'Add workspaces to the list',
    description: 'One whose path is there already stays as it is.',
    body: addWorkspacesRequest,
    responses: addResponses,
  },
  removeWorkspace: {
    method: 'DELETE',
    path: '/api/workspaces',
    tag,
    summary: 'Take a workspace from the list',
    description: 'The folder itself stays.',
    query: pathQuery,
    responses: removeResponses,
  },
  addWorkspaceParents: {
    method: 'POST',
    path: '/api/workspaces/parents',
    tag,
    summary: 'Add folders of workspaces to the list',
    description: 'One whose path is there already stays as it is.',
    body: addWorkspaceParentsRequest,
    responses: addResponses,
  },
  removeWorkspaceParent: {
    method: 'DELETE',
    path: '/api/workspaces/parents',
    tag,
    summary: 'Take a folder of workspaces from the list',
    description: 'The folder itself, and workspaces that were found in it, stay.',
    query: pathQuery,
    responses: removeResponses,
  },
} as const satisfies RouteTable
