import * as z from 'zod'
import type { RouteTable } from '../../core/route.ts'
import { addWorkspaceParentsRequest, addWorkspacesRequest, removedWorkspace, workspacesList } from './list.ts'

const tag = 'workspaces'
const query = z.object({ path: z.string().meta({ description: 'As it was added.' }) })
const unreadable = { 409: { description: 'What is kept cannot be read.' } }
const added = {
  200: { description: 'All of them.', schema: workspacesList },
  409: { description: 'There would be more than there may be, or what is kept cannot be read.' },
}
const removed = {
  200: { description: 'It is gone; what is left.', schema: removedWorkspace },
  404: { description: 'There is none of this path.' },
  ...unreadable,
}

export const workspacesListRoutes = {
  listWorkspaces: {
    method: 'GET',
    path: '/api/workspaces',
    tag,
    summary: 'List the folders that somebody works in',
    responses: { 200: { description: 'All of them.', schema: workspacesList }, ...unreadable },
  },
  addWorkspaces: {
    method: 'POST',
    path: '/api/workspaces',
    tag,
    summary: 'Add workspaces to the list',
    description: 'One whose path is there already stays as it is.',
    body: addWorkspacesRequest,
    responses: added,
  },
  removeWorkspace: {
    method: 'DELETE',
    path: '/api/workspaces',
    tag,
    summary: 'Take a workspace from the list',
    description: 'The folder itself stays.',
    query,
    responses: removed,
  },
  addWorkspaceParents: {
    method: 'POST',
    path: '/api/workspaces/parents',
    tag,
    summary: 'Add folders of workspaces to the list',
    description: 'One whose path is there already stays as it is.',
    body: addWorkspaceParentsRequest,
    responses: added,
  },
  removeWorkspaceParent: {
    method: 'DELETE',
    path: '/api/workspaces/parents',
    tag,
    summary: 'Take a folder of workspaces from the list',
    description: 'The folder itself, and workspaces that were found in it, stay.',
    query,
    responses: removed,
  },
} as const satisfies RouteTable
