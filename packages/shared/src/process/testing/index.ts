export {
  agentServerMain,
  bundledProgram,
  commandMain,
  programRoot,
  sandboxServerMain,
} from './program-root.ts'
