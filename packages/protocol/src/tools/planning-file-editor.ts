import { editMembers, editResultMembers } from './file-editor.ts'
import { action, observation, ownTool, tool } from './tool.ts'

export const planningFileEditorAction = action('PlanningFileEditorAction', editMembers)
export const planningFileEditorObservation = observation('PlanningFileEditorObservation', editResultMembers)
export const planningFileEditorTool = tool('PlanningFileEditorTool', {})

export const planningFileEditor = ownTool(
  'PlanningFileEditorTool',
  { action_type: 'PlanningFileEditorAction', observation_type: 'PlanningFileEditorObservation' },
  {},
  'Views any file, and edits the plan of this conversation. Other files stay as they are.',
)
