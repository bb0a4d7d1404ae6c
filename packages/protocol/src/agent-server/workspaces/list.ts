import * as z from 'zod'

const workspacePath = z
  .string()
  .min(1)
  .max(4096)
  .refine((text) => !text.includes('\0'), { message: 'The path contains a NUL byte' })
const itemMembers = { id: z.string().min(1).max(4096), name: z.string().max(1000), path: workspacePath }

/** A folder that somebody works in. What stands here need not be there. */
export const workspaceItem = z
  .object({
    ...itemMembers,
    parentPath: workspacePath
      .nullish()
      .transform((text) => text ?? undefined)
      .meta({ description: 'The parent below which it was found.' }),
  })
  .meta({ id: 'WorkspaceItem' })
export type WorkspaceItem = z.output<typeof workspaceItem>

/** A folder whose folders are workspaces. */
export const workspaceParent = z.object(itemMembers).meta({ id: 'WorkspaceParentItem' })
export type WorkspaceParent = z.output<typeof workspaceParent>

/** In the order in which they were added. Members that are not known are left out. */
export const workspacesList = z
  .object({ workspaces: z.array(workspaceItem), workspaceParents: z.array(workspaceParent) })
  .meta({ id: 'WorkspacesList' })
export type WorkspacesList = z.output<typeof workspacesList>

export const addWorkspacesRequest = z
  .object({ workspaces: z.array(workspaceItem).max(1000) })
  .meta({ id: 'AddWorkspacesRequest' })

export const addWorkspaceParentsRequest = z
  .object({ parents: z.array(workspaceParent).max(1000) })
  .meta({ id: 'AddWorkspaceParentsRequest' })

/** Both forms that clients read: that it is gone, and what is left. */
export const removedWorkspace = workspacesList
  .extend({ deleted: z.boolean() })
  .meta({ id: 'RemovedWorkspace' })
