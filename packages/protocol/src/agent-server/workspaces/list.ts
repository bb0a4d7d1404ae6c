import { isRecord } from '@slipway/shared/json'
import * as z from 'zod'
import { component } from '../../core/schemas.ts'

const workspacePath = z
  .string()
  .min(1)
  .max(4096)
  .refine((text) => !text.includes('\0'), { message: 'The path contains a NUL byte' })
const itemMembers = { id: z.string().min(1).max(4096), name: z.string().max(1000), path: workspacePath }
/** Of what is added; lists may have longer ones. */
const nameInput = z.string().min(1).max(256)
const parentPath = workspacePath
  .nullish()
  .transform((text) => text ?? undefined)
  .meta({ description: 'The parent below which it was found; also as parent_path.' })

/** A folder with work in progress; it need not exist. */
export const workspaceItem = component('WorkspaceItem', { ...itemMembers, parentPath })
export type WorkspaceItem = z.output<typeof workspaceItem>

/** A folder whose folders are workspaces. */
export const workspaceParent = component('WorkspaceParentItem', itemMembers)
/** Both as they are added. */
export const workspaceItemInput = z.preprocess(
  (item) => (isRecord(item) && 'parent_path' in item ? { parentPath: item.parent_path, ...item } : item),
  component('WorkspaceItemInput', { ...itemMembers, name: nameInput, parentPath }),
)
export const workspaceParentInput = component('WorkspaceParentInput', { ...itemMembers, name: nameInput })
export type WorkspaceParent = z.output<typeof workspaceParent>

/** In the order in which they were added. Members that are not known are left out. */
export const workspacesList = component('WorkspacesList', {
  workspaces: z.array(workspaceItem),
  workspaceParents: z.array(workspaceParent),
})
export type WorkspacesList = z.output<typeof workspacesList>
