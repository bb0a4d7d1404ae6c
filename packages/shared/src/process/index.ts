export { assertUntracked } from './assert-untracked.ts'
export { dropEmptySettings, takeEnvironment } from './environment.ts'
export { findFreePort } from './free-port.ts'
export { type GitCommand, gitCommand } from './git-command.ts'
export { hideFromDebuggers, type Libc, loadLibc, type PeerCredentials } from './libc.ts'
export { findLockHolder } from './lock-holder.ts'
export { removeSocketLinks, shortSocketPath } from './short-socket.ts'
export { abortAtStopSignals, isTerminated } from './stop-signals.ts'
export { configDirectory, privateDirectories, userDataDirectory } from './user-directory.ts'
export {
  adoptDataDirectory,
  type DataDirectory,
  type DataKind,
  usualDataDirectory,
} from './usual-data-directory.ts'
