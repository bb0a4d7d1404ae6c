export { RepositoryView, RepositoryViewError } from './repository-view.ts'
