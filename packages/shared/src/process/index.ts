export { takeEnvironment } from './environment.ts'
export { findFreePort } from './free-port.ts'
export { hideFromDebuggers, type Libc, loadLibc, type PeerCredentials } from './libc.ts'
