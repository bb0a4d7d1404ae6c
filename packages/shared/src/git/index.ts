export { RepositoryView, RepositoryViewError } from './repository-view.ts'
export { removeViewLeftovers } from './view-folder.ts'
