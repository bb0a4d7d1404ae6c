export { copyIndex } from './copy-index.ts'
export { RepositoryView, RepositoryViewError } from './repository-view.ts'
