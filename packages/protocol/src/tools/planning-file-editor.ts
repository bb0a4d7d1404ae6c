import { editMembers, editResultMembers } from './file-editor.ts'
import { defineTool } from './tool.ts'

export const planningFileEditor = defineTool('PlanningFileEditor', {
  description: 'Views any file, and edits the plan of this conversation. Other files stay as they are.',
  traits: {},
  action: editMembers,
  observation: editResultMembers,
})
