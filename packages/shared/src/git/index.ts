export { RepositoryView } from './repository-view.ts'
