export { carelessCalls, carelessMarks, HostileRepository } from './hostile-repository.ts'
