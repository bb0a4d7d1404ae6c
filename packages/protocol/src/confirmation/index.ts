export { actionsDigest, type DigestedAction } from './actions-digest.ts'
export { type Excerpt, excerptRows } from './excerpt.ts'
export { PendingActions } from './pending-actions.ts'
export { type ShownAction, type ShownLine, shownAction } from './shown-action.ts'
