import { editMembers, editResultMembers } from './file-editor.ts'
import { defineAction, defineBuiltInTool, defineObservation, defineToolSchema } from './tool.ts'

export const planningFileEditorAction = defineAction('PlanningFileEditorAction', editMembers)
export const planningFileEditorObservation = defineObservation(
  'PlanningFileEditorObservation',
  editResultMembers,
)
export const planningFileEditorTool = defineToolSchema('PlanningFileEditorTool', {})

export const planningFileEditor = defineBuiltInTool(
  'PlanningFileEditorTool',
  { action_type: 'PlanningFileEditorAction', observation_type: 'PlanningFileEditorObservation' },
  {},
  'Views any file, and edits the plan of this conversation. Other files stay as they are.',
)
