export { takeEnvironment } from './environment.ts'
export { hideFromDebuggers, type Libc, loadLibc, type PeerCredentials } from './libc.ts'
