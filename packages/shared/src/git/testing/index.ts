export { HostileRepository } from './hostile-repository.ts'
